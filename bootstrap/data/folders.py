"""The files of local data: listed before a host is contacted, hashed before they are sent.

All regular files belong to the data, whatever .gitignore says. A link inside the folder counts as
the file or folder that it points to. Everything else is refused by name: otherwise a run on other
hosts would have other data than the folder here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.names import is_manifest

from ..console.output import ByteReporter
from ..console.text import count, size
from ..console.threads import in_threads
from ..errors import RailheadError, UsageError
from ..host.base.regular_files import size_and_sha256
from ..inventory import caches
from ..inventory.files import atomic_write
from ..ssh.bundle_files import check_name

THREADS = 4  # sha256 releases Python's lock
SETTLED = 2_000_000_000  # ns: the hash of a file that changed more recently is not kept


@dataclass(frozen=True)
class DataFile:
    """One file: its posix path in the data, its bytes, and the sha256 of its content; "" before it
    is read."""

    path: str
    size: int
    sha256: str = ""


Mark = tuple[int, int, int, int]  # size, times of change in ns: mtime and ctime; inode


@dataclass(frozen=True)
class Hashed:
    """The state of a file when its content was hashed, and the hash."""

    mark: Mark
    sha256: str


@dataclass(frozen=True)
class LocalData:
    """The files below `root`, sorted by path."""

    root: Path
    files: tuple[DataFile, ...]

    @cached_property
    def digest(self) -> str:
        """The sha256 over paths and contents: the name of the data on a host."""
        lines = (f"{file.sha256} {file.path}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def total_bytes(self) -> int:
        """The sum of all files' sizes."""
        return sum(file.size for file in self.files)

    def share(self, index: int, count: int) -> LocalData:
        """The files of host `index` of `count`: file i goes to host i modulo `count`; the manifest
        of shards goes to every host."""
        shared = tuple(file for file in self.files if is_manifest(file.path))
        sharded = [file for file in self.files if not is_manifest(file.path)][index::count]
        return replace(self, files=tuple(sorted((*sharded, *shared), key=lambda file: file.path)))

    def manifest(self) -> tuple[tuple[str, int, str], ...]:
        """Path, bytes and sha256 of each file."""
        return tuple((file.path, file.size, file.sha256) for file in self.files)


def listed(path: Path, where: str) -> LocalData:
    """The files of a folder, or one file; not read yet. `where` begins the messages.

    Raises:
        UsageError: it is empty, or has an entry that cannot be sent.
    """
    root = path.expanduser().resolve()
    try:
        if root.is_file():
            check_name(root)
            return LocalData(root.parent, (_readable(root, root.name),))
        if root.exists() and not root.is_dir():
            raise _special(path)
        files = sorted(_walk(root, root, "", ()), key=lambda file: file.path)
    except OSError as error:
        raise UsageError(f"{where}: cannot read {error.filename}: {error.strerror}") from error
    if not files:
        raise UsageError(f"{where}: {path} has no files")
    return LocalData(root, tuple(files))


def _walk(root: Path, folder: Path, prefix: str, entered: tuple[Path, ...]) -> Iterator[DataFile]:
    """Every file below `folder`; its path in the data begins with `prefix`."""
    real = folder.resolve()
    if real in entered:
        raise UsageError(f"{folder} is a link to a folder that contains it: it never ends")
    with os.scandir(folder) as entries:
        by_name = sorted(entries, key=lambda entry: entry.name)
    for entry in by_name:
        path, name = Path(entry.path), prefix + entry.name
        check_name(path)
        if entry.is_symlink():
            _check_link(root, path)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(root, path, f"{name}/", (*entered, real))
        elif stat.S_ISREG(mode):
            yield _readable(path, name)
        else:
            raise _special(path)


def _special(path: Path) -> UsageError:
    return UsageError(f"{path} is not a file but a FIFO, a socket or a device: remove it")


def _readable(path: Path, name: str) -> DataFile:
    """A file that this user may read."""
    if not os.access(path, os.R_OK):
        raise UsageError(
            f"cannot read {path}: Permission denied", hint=f"chmod u+r {shlex.quote(str(path))}"
        )
    return DataFile(name, path.stat().st_size)


def _check_link(root: Path, path: Path) -> None:
    """Refuse a link that is dangling or leads out of the data: its target would not be sent."""
    target = path.resolve()
    if not path.exists():
        raise UsageError(f"{path} is a link to {target}, which does not exist: remove it")
    if not target.is_relative_to(root):
        raise UsageError(
            f"{path} is a link to {target}, which is outside {root}",
            hint="name the folder that contains both, or copy the files into it",
        )


def hashed(data: LocalData, report: ByteReporter) -> LocalData:
    """The data with the sha256 of each file. Hashes of files that did not change since the last
    time come from a cache; `report` gets the bytes read so far.

    Raises:
        RailheadError: a file cannot be read, or has another size than when it was listed.
    """
    cache = caches.cache("data-hashes") / f"{hashlib.sha256(bytes(data.root)).hexdigest()}.json"
    known = _read_cache(cache)
    marks: dict[str, Hashed] = {}
    bytes_read, counting = 0, Lock()

    def hash_one(file: DataFile) -> DataFile:
        nonlocal bytes_read
        mark = _mark(data.root / file.path)
        cached = known.get(file.path)
        sha256 = cached.sha256 if cached and cached.mark == mark else None
        new = replace(file, sha256=sha256 or _sha256(data.root / file.path, file))
        if time.time_ns() - max(mark[1], mark[2]) > SETTLED:
            marks[file.path] = Hashed(mark, new.sha256)
        with counting:
            bytes_read += file.size
            report(bytes_read)
        return new

    files = in_threads(hash_one, data.files, THREADS)
    atomic_write(cache, json.dumps(encode(marks)))
    return replace(data, files=tuple(files))


def _mark(path: Path) -> Mark:
    """What changes when a file's content does; ctime cannot be set."""
    try:
        status = path.stat()
    except OSError as error:
        raise _changed(path) from error
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _read_cache(path: Path) -> dict[str, Hashed]:
    """Hashes by path in the data; empty if there is no cache yet or it is damaged."""
    try:
        return decode(dict[str, Hashed], json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _sha256(path: Path, file: DataFile) -> str:
    """The hash of a file's content."""
    try:
        bytes_read, sha256 = size_and_sha256(str(path.resolve()))  # links inside the folder count
    except OSError as error:
        raise RailheadError(f"cannot read {path}: {error.strerror or error}") from error
    if bytes_read != file.size:
        raise _changed(path)
    return sha256


def _changed(path: Path) -> RailheadError:
    return RailheadError(
        f"{path} changed since the command started",
        hint="run the command again when nothing writes to the data any more",
    )


def summary(data: LocalData) -> str:
    """`12 files, 3.4 GB`."""
    return f"{count(len(data.files), 'file')}, {size(data.total_bytes)}"
