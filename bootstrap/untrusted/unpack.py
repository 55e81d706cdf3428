"""Turns archives and file names from a host into files on this computer, by strict rules.

A host may be compromised, so no name, size, type or length from it is trusted. This module has its
own rules for archives, because tarfile's filters have bugs in some versions of Python. It unpacks
an archive into a new folder to which nobody else writes, and moves each file from there into the
results: never through a link, and never under a name that tools execute by themselves.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from railhead.documents.runs.local_names import local_name
from railhead.documents.runs.manifest import FILES, NAME, fault

from ..console.text import clean
from ..errors import Command, Hint, RailheadError
from ..host.base import locks

BLOCK = tarfile.BLOCKSIZE
PIECE = 1 << 16  # bytes per read
STAGE = ".fetch-"  # prefix of the folder for files in transit
KINDS = {
    tarfile.SYMTYPE: "a link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a FIFO",
}


class Hostile(RailheadError):
    """A host sent something that Railhead's own code never sends; none of it is kept."""

    def __init__(self, description: str) -> None:
        super().__init__(
            f"the host sent {description}: nothing of it was kept",
            hint=Hint(
                Command("ssh"), "   # look at the host: its files or its Python may be changed"
            ),
        )


def checked(name: object) -> str:
    """Return `name` unchanged if it is a safe relative path.

    Raises:
        Hostile: it is not text, leads out of its folder, is too long or too deep, or contains
            characters that a terminal or an editor interprets.
    """
    if not isinstance(name, str) or (why := fault(name)):
        shown = clean(str(name))[:80]
        raise Hostile(
            f"the name {shown!r}, which {why if isinstance(name, str) else 'is not a text'}"
        )
    return name


def local_path(folder: Path, name: str) -> Path:
    """The path of a host's file below `folder`, never a name that tools execute by themselves."""
    return folder / local_name(checked(name))


def literal(path: str) -> str:
    """A pattern that matches this path only, to request a file by its name."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)


def packed_limit(limit: int) -> int:
    """The maximum size of an archive with `limit` bytes of content, headers and padding."""
    return limit + limit // 1000 + FILES * 4 * BLOCK


def unpack(packed: Path, into: Path, limit: int) -> list[str]:
    """Write the regular files of a tar.gz into the new folder `into`; returns their names, which
    `local_path` turns into paths.

    Reads at most `limit` bytes of content and FILES entries; each entry's header is checked before
    its content is read. Bytes after the end of the archive are not read.

    Raises:
        Hostile: an entry is not a regular file or folder, its name is a duplicate or refused by
            `checked`, or the archive exceeds a limit or is damaged.
    """
    into.mkdir(mode=0o700)
    names: list[str] = []
    try:
        with gzip.open(packed) as archive:
            for name, size in _entries(archive, limit):
                _write(archive, into, name, size)
                _read_exactly(archive, -size % BLOCK)
                names.append(name)
    except (tarfile.HeaderError, gzip.BadGzipFile, zlib.error, EOFError):
        raise Hostile("a damaged archive") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = os.path.relpath(error.filename, into)
        raise Hostile(f"an archive with two entries named {clean(name)!r}") from None
    return names


def _entries(archive: gzip.GzipFile, limit: int) -> Iterator[tuple[str, int]]:
    """Name and size of each regular file; the archive is then at the start of its content."""
    count = total = 0
    long_name = ""
    while any(block := _read_exactly(archive, BLOCK)):
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        count += 1
        if count > 2 * FILES:  # a long name is a separate entry
            raise Hostile(f"more than {FILES} files")
        if entry.size < 0:
            raise Hostile("an entry of a negative size")
        if entry.type == tarfile.GNUTYPE_LONGNAME:
            long_name = _long_name(archive, entry.size)
            continue
        name, long_name = checked(long_name or entry.name.removesuffix("/")), ""
        if entry.type == tarfile.DIRTYPE and not entry.size:
            continue  # folders are created with their files
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise Hostile(f"{KINDS.get(entry.type, 'a special entry')}, {name!r}")
        total += entry.size
        if total > limit:
            raise Hostile(f"more than {limit} bytes")
        yield name, entry.size


def _long_name(archive: gzip.GzipFile, size: int) -> str:
    """A name that does not fit into a header, in the format of GNU tar."""
    if size > NAME + 2:
        raise Hostile(f"a name of {size} bytes")
    name = _read_exactly(archive, size + -size % BLOCK)[:size].rstrip(b"\0")
    return name.decode("utf-8", "surrogateescape").removesuffix("/")


def _read_exactly(archive: gzip.GzipFile, size: int) -> bytes:
    """Exactly `size` bytes; EOFError if there are fewer."""
    data = archive.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _write(archive: gzip.GzipFile, into: Path, name: str, size: int) -> None:
    """Write the next bytes of an archive into a new file."""
    path = local_path(into, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as out:
        while size:
            piece = _read_exactly(archive, min(size, PIECE))
            out.write(piece)
            size -= len(piece)


def new_file(path: Path) -> IO[bytes]:
    """Create a file for writing; fails if the path exists, even as a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o644), "wb")


@contextlib.contextmanager
def stage(root: Path) -> Iterator[Path]:
    """A new folder in `root` for files in transit, removed at the end; also removes the folders
    of killed commands."""
    root.mkdir(parents=True, exist_ok=True)
    for stale in root.glob(f"{STAGE}*"):
        _remove_unused(stale)
    folder = Path(tempfile.mkdtemp(prefix=STAGE, dir=root))
    with locks.try_lock(folder, is_folder=True):  # no other process uses it
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_unused(folder: Path) -> None:
    """Remove a folder of `stage` that no command has locked."""
    with contextlib.suppress(OSError), locks.try_lock(folder, is_folder=True) as free:
        if free:
            shutil.rmtree(folder, ignore_errors=True)


def place(file: Path, root: Path, name: str) -> None:
    """Move a file to its `local_path` below a root; replaces a file or link with this name.

    Raises:
        RailheadError: a parent folder is a link or a file, or there is a folder with its name.
    """
    parts = local_path(Path(), name).parts
    for depth in range(1, len(parts)):
        folder = root.joinpath(*parts[:depth])
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        if folder.is_symlink() or not folder.is_dir():
            raise _in_the_way(folder, "is a link or not a folder: nothing is written through it")
    path = root.joinpath(*parts)
    refuse_folder(path)
    file.replace(path)  # a link of this name is replaced, not followed


def refuse_folder(path: Path) -> None:
    """RailheadError if there is a folder at the path of a file."""
    if path.is_dir() and not path.is_symlink():
        raise _in_the_way(path, "is a folder here and a file on the host")


def _in_the_way(path: Path, obstacle: str) -> RailheadError:
    return RailheadError(f"{path} {obstacle}", hint=Hint("move it away, then: ", Command("fetch")))


def place_text(text: str, stage: Path, root: Path, name: str) -> None:
    """Write a text to `root`/`name`, completely or not at all."""
    descriptor, partial = tempfile.mkstemp(dir=stage)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    place(Path(partial), root, name)


def pairs(files: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """A host's list of files, each a name and its size in bytes; Hostile if one is refused."""
    if len(files) > FILES or any(size < 0 for _, size in files):
        raise Hostile("a list of files that is not valid")
    return [(checked(name), size) for name, size in files]
