"""Files that are fetched here for hosts: each once, and read while they still come."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

SILENCE = 30  # seconds; apt's own patience with a server
PIECE = 1 << 16
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
        self.headers: dict[str, str] = {}
        self.begun = threading.Event()
        self._path, self._size, self._done = path, 0, False
        self._grown = threading.Condition()
        path.touch()
        threading.Thread(target=self._fetch, args=(url, headers), daemon=True).start()

    @property
    def length(self) -> int:
        """Its bytes; waits for the whole of it where the server did not say."""
        told = self.headers.get("Content-Length")
        if told is None:
            with self._grown:
                self._grown.wait_for(lambda: self._done)
        return int(told) if told is not None else self._size

    @property
    def serves(self) -> bool:
        """Whether it can still be had from here: it comes, or it is whole."""
        return self.status in (0, 200) and not (self._done and self._size != self.length)

    def pieces(self) -> Iterator[bytes]:
        """Its bytes as they come; fewer than `length` where the server hung up."""
        sent = 0
        with self._path.open("rb") as file:
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
        try:
            with OPENER.open(Request(url, headers=dict(headers)), timeout=SILENCE) as answer:
                self._begin(answer.status, answer.reason, answer.headers)
                with self._path.open("wb", buffering=0) as out:
                    for piece in iter(lambda: answer.read1(PIECE), b""):
                        out.write(piece)
                        self._tell(len(piece))
        except HTTPError as error:
            self._begin(error.code, error.reason, {**error.headers, "Content-Length": "0"})
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            self._begin(502, f"This computer gets no answer either: {why}", {"Content-Length": "0"})
        finally:
            self._tell(0, done=True)

    def _begin(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        if not self.begun.is_set():
            self.status, self.reason, self.headers = status, reason, dict(headers)
            self.begun.set()

    def _tell(self, grown: int, done: bool = False) -> None:
        with self._grown:
            self._size += grown
            self._done = self._done or done
            self._grown.notify_all()


class Files:
    """What has been fetched, in a folder: asked for twice, it is fetched once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, Fetched] = {}
        self._count = 0

    def take(self, url: str, headers: Mapping[str, str]) -> Fetched:
        """A file, perhaps still coming."""
        with self._lock:
            there = self._kept.get(url)
            if there and there.serves:
                return there
            self._count += 1
            fetched = Fetched(url, headers, self._folder / str(self._count))
            if KEPT.search(url):
                self._kept[url] = fetched
            return fetched
