"""Files that are fetched here for hosts: each once, and read while they still come."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from bootstrap.provision import apt_upstream

PIECE = 1 << 14
ROOM = 100_000_000  # bytes of this computer's disk that are left alone
# What never changes under its name. Lists do, so they are asked for anew each time.
KEPT = re.compile(r"\.deb$|/by-hash/")


class _AsTold(HTTPRedirectHandler):
    """Who asked decides whether to go where a server sends them."""

    def redirect_request(self, *_: Any) -> None:
        """Nowhere: the answer is passed on."""


OPENER = build_opener(_AsTold)


class Fetched:
    """One file on its way. `status`, `reason` and `headers` are there once `begun` is set; until
    it is whole, others follow it as it grows."""

    def __init__(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        self.status, self.reason = 0, ""
        self.headers = Message()
        self.begun = threading.Event()
        self.path, self._size = path, 0
        self._done = self._ended_well = False
        self._grown = threading.Condition()
        path.touch()
        threading.Thread(target=self._fetch, args=(url, headers), daemon=True).start()

    @property
    def length(self) -> int:
        """Its bytes; waits for the whole of it where the server did not say."""
        if (told := _length(self.headers)) is None:
            with self._grown:
                self._grown.wait_for(lambda: self._done)
            return self._size
        return told

    @property
    def serves(self) -> bool:
        """Whether it can still be had from here: it comes, or it is whole."""
        return not self._done or (self.status == 200 and self._ended_well)

    def pieces(self) -> Iterator[bytes]:
        """Its bytes as they come; fewer than `length` where the server hung up."""
        sent = 0
        with self.path.open("rb") as file:
            while self._grows(sent):
                piece = file.read(PIECE)
                sent += len(piece)
                yield piece

    def _grows(self, beyond: int) -> bool:
        """Wait until there is more than so many bytes; False where no more will come."""
        with self._grown:
            self._grown.wait_for(lambda: self._done or self._size > beyond)
            return self._size > beyond

    def _fetch(self, url: str, headers: Mapping[str, str]) -> None:
        nothing = Message()
        nothing["Content-Length"] = "0"
        try:
            self._receive(url, headers)
        except HTTPError as error:
            del error.headers["Content-Length"]
            error.headers["Content-Length"] = "0"
            self._begin(error.code, error.reason, error.headers)
        except apt_upstream.Inward as error:
            self._begin(403, str(error), nothing)
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            self._begin(502, f"This computer gets no answer either: {why}", nothing)
        finally:
            with self._grown:
                self._done = True
                self._grown.notify_all()

    def _receive(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        apt_upstream.check(parts.hostname or "", parts.port or 80, "http")
        asked = Request(url, headers=dict(headers))
        with OPENER.open(asked, timeout=apt_upstream.SILENCE) as answer:
            told = _length(answer.headers)
            if shutil.disk_usage(self.path.parent).free < (told or 0) + ROOM:
                raise OSError(f"its disk is full at {self.path.parent}")
            self._begin(answer.status, answer.reason, answer.headers)
            with self.path.open("wb") as out:
                for piece in iter(lambda: answer.read(PIECE), b""):
                    out.write(piece)
                    out.flush()
                    with self._grown:
                        self._size += len(piece)
                        self._grown.notify_all()
        self._ended_well = told in (None, self._size)

    def _begin(self, status: int, reason: str, headers: Message) -> None:
        if not self.begun.is_set():
            self.status, self.reason, self.headers = status, reason, headers
            self.begun.set()


def _length(headers: Message) -> int | None:
    """How long a server says that its answer is; None where it does not say."""
    with suppress(ValueError):
        return int(headers["Content-Length"] or "")
    return None


@dataclass
class _Kept:
    """A file that several hosts take; who asks for it again got something wrong."""

    file: Fetched
    takers: set[str] = field(default_factory=set)


class Files:
    """What is fetched, in a folder: what two hosts ask for, it is fetched once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._count = 0

    def take(self, url: str, headers: Mapping[str, str], host: str) -> Fetched:
        """A file for a host, perhaps still coming."""
        with self._lock:
            kept = self._kept.get(url)
            if not kept or not kept.file.serves or host in kept.takers:
                self._count += 1
                kept = _Kept(Fetched(url, headers, self._folder / str(self._count)))
                if KEPT.search(url):
                    self._kept[url] = kept
            kept.takers.add(host)
            return kept.file

    def leave(self, url: str, file: Fetched) -> None:
        """One who took it has read it; what nobody else will take is removed."""
        with self._lock:
            if url not in self._kept or self._kept[url].file is not file:
                file.path.unlink(missing_ok=True)
