"""Sends files of a host as one tar: a run's results, or the files that match patterns.

Only regular files are opened.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import os
import re
import stat
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, cast

from railhead.documents.agent.packing import Collect, Collected, Digest, Get, GetFile, Sent

from ..base import programs
from ..base.regular_files import open_regular
from ..run.manifest import GROWING, Listing, tree
from .channel import Chunks, operations

PIECE = 1 << 18  # bytes
UNREAD_SECONDS = 60.0


def collect(request: Collect) -> Collected:
    """Send a run's results as they are now, even during the run or after its supervisor died."""
    folder = os.path.expanduser(request.folder)
    if is_left(folder):
        add_unread(folder)
    listing = Listing(folder)
    log = f"logs/{GROWING}"
    more = [(log, 0)] if os.path.exists(os.path.join(folder, log)) else []
    sent = send(folder, [*listing.files, *more], request.limit)
    return Collected(sent.files, sent.left, sent.changed, tuple(listing.skipped))


def is_left(folder: str) -> bool:
    """Whether a run has begun here, but has no result and no process any more."""
    from ..run.end_processes import processes

    begun, ended = (os.path.join(folder, name) for name in ("state.json", "results/result.json"))
    is_open = os.path.exists(begun) and not os.path.exists(ended)
    return is_open and not processes(os.path.basename(folder))


def add_unread(folder: str) -> None:
    """Add the output that the supervisor had not read when it died. A run of an earlier version has
    no program for this."""
    from ..base import bounded

    argv = [sys.executable, "-I", "-S", os.path.join(folder, programs.NAME), programs.UNREAD]
    bounded.run([*argv, folder], UNREAD_SECONDS)  # if it fails, the existing files are sent


def get(request: Get) -> Sent:
    """Send matching files as tar chunks; files beyond `limit` bytes in total are only listed."""
    root = os.path.expanduser(request.root)
    return send(root, matching(root, request.patterns), request.limit)


def get_file(request: GetFile) -> Digest:
    """Send one file; OSError if it is not a regular file or has more than `limit` bytes."""
    digest, chunks = hashlib.sha256(), Chunks()
    with open_regular(os.path.expanduser(request.path)) as content:
        size = os.fstat(content.fileno()).st_size
        if size > request.limit:
            why = f"{size} bytes, at most {request.limit} are sent"
            raise OSError(errno.EFBIG, why, request.path)
        for piece in iter(lambda: content.read(PIECE), b""):
            digest.update(piece)
            chunks.write(piece)
    return Digest(digest.hexdigest())


def send(root: str, files: Iterable[tuple[str, int]], limit: int) -> Sent:
    """Send files of a folder. A run may replace, extend, truncate or remove them meanwhile."""
    sent: list[tuple[str, int]] = []
    left_out: list[tuple[str, int]] = []
    changed: list[str] = []
    remaining = limit
    chunks = cast("IO[bytes]", Chunks())
    with tarfile.open(fileobj=chunks, mode="w|gz", format=tarfile.GNU_FORMAT) as tar:
        for path, _ in files:
            try:
                content = open_regular(os.path.join(root, path))
            except OSError:
                continue  # removed, or no longer a regular file
            with content:
                size = os.fstat(content.fileno()).st_size
                if size > remaining:
                    left_out.append((path, size))
                    continue
                remaining -= size
                sent.append((path, size))
                if not add(tar, path, content, size):
                    changed.append(path)
    return Sent(tuple(sent), tuple(left_out), tuple(changed))


class Exactly:
    """Reads exactly `size` bytes of a file: zeros replace truncated or unreadable bytes."""

    def __init__(self, content: IO[bytes], size: int) -> None:
        self.content, self.remaining, self.whole = content, size, True

    def read(self, size: int) -> bytes:
        """The next bytes."""
        size, data = min(size, self.remaining), b""
        with contextlib.suppress(OSError):  # a failing disk
            data = self.content.read(size)
        self.whole = self.whole and len(data) == size
        self.remaining -= size
        return data + bytes(size - len(data))


def add(tar: tarfile.TarFile, path: str, content: IO[bytes], size: int) -> bool:
    """Add a file of `size` bytes; False if it was truncated meanwhile."""
    member = tarfile.TarInfo(path)
    member.size = size
    exactly = Exactly(content, size)
    tar.addfile(member, cast("IO[bytes]", exactly))
    return exactly.whole


def matching(root: str, patterns: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(path, bytes) of the regular files that match, each once, in the order of the patterns. Not
    `glob`: it finds hidden names only since Python 3.11."""
    present = sorted(tree(root))
    paths: dict[str, None] = {}
    for pattern in patterns:
        literal = re.sub(r"\[([*?[])\]", r"\1", pattern)  # undo glob.escape
        literal_match = os.path.lexists(os.path.join(root, literal)) and [os.path.normpath(literal)]
        paths |= dict.fromkeys(
            literal_match or [path for path in present if matches(path, pattern)]
        )
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.lstat(os.path.join(root, path))
            if stat.S_ISREG(status.st_mode) and not path.startswith(".."):
                yield path, status.st_size


def matches(path: str, pattern: str) -> bool:
    """`*` does not match a slash; `**` does; `**/` matches any number of folders, including
    none."""
    if "**" in pattern:
        return any(fnmatch.fnmatchcase(path, p) for p in (pattern, pattern.replace("**/", "")))
    # If both have the same number of slashes, no `*` matches a slash.
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


OPS = operations((Get, get), (GetFile, get_file), (Collect, collect))
