"""Downloads for the apt proxy: each file is fetched once and is readable while it downloads."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, Request, build_opener

from railhead.documents.lazy import dataclass

from . import apt_upstream

PIECE = 1 << 14
ROOM = 100_000_000  # bytes that stay free on this computer's disk
# Files whose content never changes. Package lists change, so they are fetched each time.
KEPT = re.compile(r"\.deb$|/by-hash/")


class _NoRedirects(HTTPRedirectHandler):
    """Passes redirects on to the client, which decides whether to follow them."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


class _CheckedConnection(HTTPConnection):
    """Connects to an address that was checked, not to what the name resolves to now."""

    def connect(self) -> None:
        """Open the connection; OSError if no checked address answers."""
        self.sock = apt_upstream.connect_directly(self.host, self.port)


class _CheckedAddresses(HTTPHandler):
    """Connects to checked addresses. This machine's own proxy may have any address."""

    def http_open(self, request: Request) -> HTTPResponse:
        """Send the request to the mirror, or to the proxy."""
        kind = HTTPConnection if request.has_proxy() else _CheckedConnection
        return self.do_open(kind, request)


class Download:
    """One download. `status`, `reason` and `headers` are valid once `started` is set. Several
    clients can read the file while it downloads."""

    def __init__(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        self.status, self.reason = 0, ""
        self.headers = Message()
        self.started = threading.Event()
        self.path, self._size = path, 0
        self._done = self._ended_well = False
        self._grown = threading.Condition()
        path.touch()
        threading.Thread(target=self._fetch, args=(url, headers), daemon=True).start()

    @property
    def length(self) -> int:
        """The size in bytes; waits for the end of the download if the server gives no length."""
        if (length := _length(self.headers)) is None:
            with self._grown:
                self._grown.wait_for(lambda: self._done)
            return self._size
        return length

    @property
    def usable(self) -> bool:
        """Whether clients can use it: it is in progress or complete."""
        return not self._done or (self.status == 200 and self._ended_well)

    def pieces(self) -> Iterator[bytes]:
        """The bytes as they arrive; fewer than `length` if the server closed the connection."""
        sent = 0
        with self.path.open("rb") as file:
            while self._grows(sent):
                piece = file.read(PIECE)
                sent += len(piece)
                yield piece

    def _grows(self, beyond: int) -> bool:
        """Wait for more than `beyond` bytes; False if the download ends before that."""
        with self._grown:
            self._grown.wait_for(lambda: self._done or self._size > beyond)
            return self._size > beyond

    def _fetch(self, url: str, headers: Mapping[str, str]) -> None:
        empty = Message()
        empty["Content-Length"] = "0"
        try:
            self._receive(url, headers)
        except HTTPError as error:
            del error.headers["Content-Length"]
            error.headers["Content-Length"] = "0"
            self._begin(error.code, error.reason, error.headers)
        except apt_upstream.PrivateAddress as error:
            self._begin(403, str(error), empty)
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            self._begin(502, f"This computer gets no answer either: {why}", empty)
        finally:
            with self._grown:
                self._done = True
                self._grown.notify_all()

    def _receive(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        apt_upstream.check_destination(parts.hostname or "", parts.port or 80, "http")
        request = Request(url, headers=dict(headers))
        opener = build_opener(_NoRedirects, _CheckedAddresses)  # with the current proxies
        with opener.open(request, timeout=apt_upstream.SILENCE) as answer:
            length = _length(answer.headers)
            if shutil.disk_usage(self.path.parent).free < (length or 0) + ROOM:
                raise OSError(f"its disk is full at {self.path.parent}")
            self._begin(answer.status, answer.reason, answer.headers)
            with self.path.open("wb") as out:
                for piece in iter(lambda: answer.read(PIECE), b""):
                    out.write(piece)
                    out.flush()
                    with self._grown:
                        self._size += len(piece)
                        self._grown.notify_all()
        self._ended_well = length in (None, self._size)

    def _begin(self, status: int, reason: str, headers: Message) -> None:
        if not self.started.is_set():
            self.status, self.reason, self.headers = status, reason, headers
            self.started.set()


def _length(headers: Message) -> int | None:
    """The Content-Length of a response; None without one."""
    with suppress(ValueError):
        return int(headers["Content-Length"] or "")
    return None


@dataclass
class _SharedDownload:
    """A file that several hosts download. A repeated request means that the copy is damaged."""

    file: Download
    takers: set[str] = field(default_factory=set)


class DownloadCache:
    """The downloads in a folder; a file that two hosts request is fetched once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, _SharedDownload] = {}
        self._count = 0

    def open(self, url: str, headers: Mapping[str, str], host: str) -> Download:
        """The download of a URL for a host; it may still be in progress."""
        with self._lock:
            shared = self._kept.get(url)
            if not shared or not shared.file.usable or host in shared.takers:
                self._count += 1
                shared = _SharedDownload(Download(url, headers, self._folder / str(self._count)))
                if KEPT.search(url):
                    self._kept[url] = shared
            shared.takers.add(host)
            return shared.file

    def release(self, url: str, file: Download) -> None:
        """End one reader's use of a file; deletes the file if no other host will read it."""
        with self._lock:
            if url not in self._kept or self._kept[url].file is not file:
                file.path.unlink(missing_ok=True)
