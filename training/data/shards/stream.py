"""Records of shards while they are downloaded: as files of some megabytes in memory (tmpfs).

A thread per sequence of spans reads ahead, by two files at most; a file is removed when the next
one is taken. So the memory is bounded, whatever the size of the data.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import DataError
from ..assignment import Span
from ..records import segments
from ..store import Store
from .manifest import Manifest

MEMORY = Path("/dev/shm")
BUDGET = 64 << 20  # bytes that all tracks of one split may hold in files
SEGMENT = (512 << 10, 4 << 20)  # bytes of one file, least and most
AHEAD = 2  # files that wait for the reader
FILES = AHEAD + 2  # of one track: those, the one that is read, and the one that is written
WAIT = 0.2  # seconds between two checks whether the reader has left
PREFIX = "railhead-stream-"


class Stream:
    """The records of a manifest's shards, read from a store; each track in its own thread."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest
        self.fault = ""  # the first error, for the message: TensorFlow reports it as its own error
        self.numbers = itertools.count()

    def files(self, spans: Iterable[Span], tracks: int) -> Iterator[str]:
        """Paths of TFRecord files that together hold these spans in order.

        A file is removed when the next path is taken. `tracks` share the memory.
        """
        ahead = Ahead(self._written(spans, segment_bytes(tracks)))
        try:
            for path in ahead:
                try:
                    yield str(path)
                finally:
                    discard(path)
        except DataError as error:
            self.fault = self.fault or str(error)
            raise
        finally:
            ahead.close()

    def _written(self, spans: Iterable[Span], size: int) -> Iterator[Path]:
        folder = folder_in_memory()
        name = f"{os.getpid()}-{next(self.numbers)}"
        number = itertools.count()
        for span in spans:
            for content, _ in span_segments(self.store, self.manifest, span, size):
                path = folder / f"{name}-{next(number)}"
                write_whole(path, content)
                yield path


def span_segments(
    store: Store, manifest: Manifest, span: Span, size: int
) -> Iterator[tuple[memoryview, int]]:
    """The records of one span, some at a time."""
    shard = manifest.shards[span.shard]
    begin, skip = shard.place(span.first)
    end = shard.end(span.first + span.count)
    yield from segments(
        store,
        shard.name,
        shard.bytes,
        begin=begin,
        skip=skip,
        count=span.count,
        end=end,
        segment=size,
    )


def segment_bytes(tracks: int) -> int:
    """The size of a file, if each of the `tracks` holds FILES of them."""
    least, most = SEGMENT
    return min(most, max(least, BUDGET // (tracks * FILES)))


class Ahead:
    """Runs an iterator in a thread, some elements ahead; its error comes after its elements."""

    END = object()

    def __init__(self, elements: Iterator[Any], most: int = AHEAD) -> None:
        self.elements = elements
        self.waiting: queue.Queue[Any] = queue.Queue(most)
        self.left = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def __iter__(self) -> Iterator[Any]:
        while (element := self.waiting.get()) is not self.END:
            if isinstance(element, Exception):
                raise element
            yield element

    def close(self) -> None:
        """The reader leaves: end the thread and remove what it has written."""
        self.left.set()
        self._discard_waiting()  # and the thread need not wait for room
        self.thread.join()
        self._discard_waiting()

    def _run(self) -> None:
        try:
            for element in self.elements:
                if not self._put(element):
                    discard(element)
                    return
        except Exception as error:  # the reader raises it
            self._put(error)
        self._put(self.END)

    def _put(self, element: Any) -> bool:
        """Wait for room; False if the reader has left."""
        while not self.left.is_set():
            with contextlib.suppress(queue.Full):
                self.waiting.put(element, timeout=WAIT)
                return not self.left.is_set()
        return False

    def _discard_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                discard(self.waiting.get_nowait())


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a new file; DataError, and no file, if there is no space for it."""
    try:
        path.write_bytes(content)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise DataError(f"{path.parent} cannot be written: {error.strerror}") from None


def discard(element: Any) -> None:
    """Remove a file that nobody will read."""
    if isinstance(element, Path):
        element.unlink(missing_ok=True)


# --- The folder ----------------------------------------------------------------------------

_folder: Path | None = None
_lock = threading.Lock()


def folder_in_memory() -> Path:
    """This process's folder for files that are read once; gone with the process."""
    global _folder
    with _lock:
        if _folder is None:
            _folder = make_folder(place())
        return _folder


def place() -> Path:
    """A tmpfs with enough space, otherwise the folder for temporary files."""
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        remove_abandoned(MEMORY)
        if shutil.disk_usage(MEMORY).free >= 3 * BUDGET:  # training, validation, and some spare
            return MEMORY
    return Path(tempfile.gettempdir())


def make_folder(parent: Path) -> Path:
    """A new folder whose lock this process holds as long as it lives.

    It gets its name when it is locked: before, another process would take it for abandoned.
    """
    unlocked = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    lock = (unlocked / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = unlocked.rename(unlocked.with_name(unlocked.name.removeprefix(".")))
    atexit.register(lock.close)  # and until then the file is open
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove_abandoned(parent: Path) -> None:
    """Remove folders of processes that were killed: nobody holds their lock."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
