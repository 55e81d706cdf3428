"""Data of a bucket on this host: downloaded once, verified, and kept under its digest.

    ~/.railhead/data/<digest>/            RAILHEAD_DATA_CACHE names another folder
        .part/<number>                    incomplete files; a later download continues them

A file appears under its name when it is complete. All processes of the host share one cache; only
one of them downloads at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import DataError
from .shards import manifest
from .store import Item, NothingThereError, Store

VARIABLE = "RAILHEAD_DATA_CACHE"
RANGE = 4 << 20  # bytes of one request
AHEAD = 16  # requests under way
RESERVE = 64 << 20  # bytes of the disk that are left free
LOCK_SECONDS = 24 * 3600.0
REPORT_SECONDS = 10.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file to download, with its sha256 or the beginning of it; without one it is verified by
    its size alone. `etag`: its version; an incomplete download is continued only with the same
    one."""

    name: str
    bytes: int
    sha256: str = ""
    etag: str = ""


def root() -> Path:
    """Where data is kept on this host."""
    return Path(os.environ.get(VARIABLE) or "~/.railhead/data").expanduser()


def digest_of(uri: str, parts: Iterable[str]) -> str:
    """Names a folder of the cache: 32 hex digits."""
    return hashlib.sha256("\0".join((uri, *parts)).encode()).hexdigest()[:32]


def download_all(store: Store, items: Sequence[Item], report: Report) -> Path:
    """All these files of a store in a folder of the cache, which appears when it is complete.

    Raises:
        DataError: no space, a file that cannot be read, or one that changes meanwhile.
    """
    parts = [f"{item.name}/{item.bytes}/{item.etag}" for item in items]
    folder = root() / digest_of(store.uri, parts)
    with locked(folder, report):
        if not folder.exists():
            beside = folder.with_name(f"{folder.name}.partial")
            download(store, remote_files(store, items), beside, report)
            try:
                check_unchanged(store, items)
            except ChangedError:
                # If they are as listed again later, these parts must not pass by their size.
                shutil.rmtree(beside, ignore_errors=True)
                raise
            shutil.rmtree(beside / ".part", ignore_errors=True)
            beside.replace(folder)
    return folder


def remote_files(store: Store, items: Sequence[Item]) -> list[RemoteFile]:
    """The files to download. Shards are verified by the hashes of their manifest.

    Raises:
        DataError: the manifest is wrong, or a shard is missing or has another size.
    """
    hashes = {}
    if shards := manifest.beside(store, items):
        manifest.check_sizes(store, shards)
        hashes = {shard.name: shard.sha256 for shard in shards.shards}
    return [RemoteFile(i.name, i.bytes, hashes.get(i.name, ""), i.etag) for i in items]


class ChangedError(DataError):
    """A file has changed while it was downloaded."""


def check_unchanged(store: Store, items: Sequence[Item]) -> None:
    """Refuse files that have changed since they were listed.

    Raises:
        ChangedError: one has changed.
        DataError: the store does not list them now.
    """
    now: dict[str, Item] = {}
    with contextlib.suppress(NothingThereError):
        now = {item.name: item for item in store.items()}
    for item in items:
        if now.get(item.name) != item:
            raise ChangedError(
                f"{store.uri}/{item.name} changed while it was downloaded: try again"
            )


@contextlib.contextmanager
def locked(folder: Path, report: Report) -> Iterator[None]:
    """Lock a folder of the cache on this host; waits for other processes."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock").open("w")
    except OSError as error:
        raise unwritable(folder.parent, error) from None
    with lock:
        end = time.monotonic() + LOCK_SECONDS
        waited = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise DataError(f"another process has held {lock.name} for a day") from None
                if not waited:
                    report("waiting for the data that another process of this host downloads")
                waited = True
                time.sleep(0.1)
        yield


def download(store: Store, files: Sequence[RemoteFile], folder: Path, report: Report) -> None:
    """Download files into a folder: files that are there stay, interrupted ones continue.

    Raises:
        DataError: no space, a file that cannot be read, or one with another sha256.
    """
    missing = [Download(store, item, folder) for item in files]
    missing = [item for item in missing if not item.is_complete()]
    check_room(store, missing, folder)
    received, total = 0, sum(item.remaining for item in missing)
    begin = reported = time.monotonic()
    for item, data in in_order(requests(store, missing)):
        try:
            item.write(data)
        except OSError as error:
            raise unwritable(item.path, error) from None
        received += len(data)
        if (now := time.monotonic()) - reported > REPORT_SECONDS or 0 < received == total:
            reported = now
            rate = received / 1e6 / max(now - begin, 1e-3)
            report(f"{store.uri}: {received / 1e6:.0f} of {total / 1e6:.0f} MB, {rate:.0f} MB/s")


def unwritable(path: Path, error: OSError) -> DataError:
    """The error for what cannot be written in the cache, as on a full disk."""
    return DataError(
        f"{path} cannot be written: {error.strerror}. {VARIABLE} names another folder; mode stream "
        "keeps nothing on the disk"
    )


class Download:
    """One file on its way into a folder."""

    def __init__(self, store: Store, remote: RemoteFile, folder: Path) -> None:
        self.store, self.remote = store, remote
        self.path = inside(folder, remote.name)
        version = remote.sha256 or remote.etag
        name = hashlib.sha256(f"{remote.name}\0{version}".encode()).hexdigest()[:32]
        self.partial = folder / ".part" / name
        self.digest: Any = None
        have = self.partial.stat().st_size if self.partial.is_file() else 0
        self.have = have if have <= remote.bytes else 0

    @property
    def remaining(self) -> int:
        """Bytes that are still to be read."""
        return self.remote.bytes - self.have

    def is_complete(self) -> bool:
        """Whether the whole file is there already."""
        return self.path.is_file() and self.path.stat().st_size == self.remote.bytes

    def ranges(self) -> list[tuple[int, int]]:
        """What to read, in order; an empty file has one empty range."""
        starts = range(self.have, self.remote.bytes, RANGE) or [self.have]
        return [(start, min(start + RANGE, self.remote.bytes)) for start in starts]

    def write(self, data: Any) -> None:
        """Append a range; the last one makes the file appear."""
        if self.digest is None:
            self._begin()
        self.file.write(data)
        self.digest.update(data)
        self.have += len(data)
        if self.have == self.remote.bytes:
            self._finish()

    def _begin(self) -> None:
        self.digest = hashlib.sha256()
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        if self.have:
            with self.partial.open("rb") as begun:
                while piece := begun.read(1 << 20):
                    self.digest.update(piece)
        self.file = self.partial.open("ab" if self.have else "wb")

    def _finish(self) -> None:
        self.file.close()
        if not self.digest.hexdigest().startswith(self.remote.sha256):
            self.partial.unlink()
            raise DataError(
                f"{self.store.uri}/{self.remote.name} is altered: its sha256 is not the manifest's"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.partial.replace(self.path)
        except OSError as error:
            raise DataError(f"{self.path}: {error.strerror}") from None


def inside(folder: Path, name: str) -> Path:
    """The path of a file below a folder; DataError for a name that leads out of it."""
    parts = name.split("/")
    if any(folder_name in ("", ".", "..", ".part") or "\0" in folder_name for folder_name in parts):
        raise DataError(f"the name {name!r} cannot be a file's")
    return folder.joinpath(*parts)


def check_room(store: Store, missing: Sequence[Download], folder: Path) -> None:
    """Refuse to begin if the data does not fit on the disk."""
    place = folder
    while not place.exists():
        place = place.parent
    needed, free = sum(item.remaining for item in missing), shutil.disk_usage(place).free
    if needed and needed + RESERVE > free:
        raise DataError(
            f"no space for {store.uri}: {needed} bytes are needed in {place} beside "
            f"{RESERVE >> 20} MB that stay free, {free} bytes are free. {VARIABLE} names another "
            "folder; mode stream keeps nothing on the disk"
        )


def requests(
    store: Store, missing: Sequence[Download]
) -> Iterator[tuple[Download, Callable[[], Any]]]:
    """All ranges to read, as functions."""
    for item in missing:
        for start, end in item.ranges():
            yield item, partial(store.read_range, item.remote.name, start, end)


def in_order(
    calls: Iterator[tuple[Download, Callable[[], Any]]],
) -> Iterator[tuple[Download, Any]]:
    """Call in threads, some calls ahead; the results come in order."""
    under_way: deque[tuple[Download, Future[Any]]] = deque()
    with ThreadPoolExecutor(AHEAD) as threads:
        try:
            for item, call in calls:
                under_way.append((item, threads.submit(call)))
                if len(under_way) == AHEAD:
                    first, result = under_way.popleft()
                    yield first, result.result()
            while under_way:
                first, result = under_way.popleft()
                yield first, result.result()
        finally:
            for _, result in under_way:
                result.cancel()
