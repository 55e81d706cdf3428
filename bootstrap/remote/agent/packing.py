"""Files of a host on their way back, as one tar: a run's results, or what matches patterns.

Only regular files are opened. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from bootstrap.remote.agent.channel import Chunks
from bootstrap.remote.run.manifest import GROWING, Listing, open_regular, tree


def collect(folder: str, limit: int) -> dict[str, Any]:
    """Send a run's results as they are now, also while it runs or after its supervisor died.

    Answers `files` and `left` as `get` does, `skipped` as the manifest does, and `changed`: files
    that were cut shorter while they were read, of which nothing useful was sent.
    """
    folder = os.path.expanduser(folder)
    found = Listing(folder)
    log = f"logs/{GROWING}"
    more = [(log, 0)] if os.path.exists(os.path.join(folder, log)) else []
    return {**send(folder, [*found.files, *more], limit), "skipped": found.skipped}


def get(root: str, patterns: list[str], limit: int) -> dict[str, Any]:
    """Send matching files as tar chunks; over `limit` bytes in all, the rest is only listed."""
    root = os.path.expanduser(root)
    return send(root, matching(root, patterns), limit)


def send(root: str, files: Iterable[tuple[str, int]], limit: int) -> dict[str, Any]:
    """Send files of a folder as they are now: a run may replace, lengthen, cut or remove them."""
    sent: list[tuple[str, int]] = []
    left: list[tuple[str, int]] = []
    changed: list[str] = []
    remaining = limit
    chunks = cast("IO[bytes]", Chunks())
    with tarfile.open(fileobj=chunks, mode="w|gz", format=tarfile.GNU_FORMAT) as tar:
        for path, _ in files:
            try:
                content = open_regular(os.path.join(root, path))
            except OSError:
                continue  # it has gone, or is no file any more
            with content:
                size = os.fstat(content.fileno()).st_size
                if size > remaining:
                    left.append((path, size))
                    continue
                remaining -= size
                sent.append((path, size))
                if not add(tar, path, content, size):
                    changed.append(path)
    return {"files": sent, "left": left, "changed": changed}


class Exactly:
    """A file as so many bytes, whatever becomes of it: zeros follow where it was cut."""

    def __init__(self, content: IO[bytes], size: int) -> None:
        self.content, self.left, self.whole = content, size, True

    def read(self, size: int) -> bytes:
        """The next bytes."""
        size, data = min(size, self.left), b""
        with contextlib.suppress(OSError):  # a disk that fails
            data = self.content.read(size)
        self.whole = self.whole and len(data) == size
        self.left -= size
        return data + bytes(size - len(data))


def add(tar: tarfile.TarFile, path: str, content: IO[bytes], size: int) -> bool:
    """Add a file of `size` bytes; False when it was cut meanwhile."""
    member = tarfile.TarInfo(path)
    member.size = size
    exactly = Exactly(content, size)
    tar.addfile(member, cast("IO[bytes]", exactly))
    return exactly.whole


def matching(root: str, patterns: list[str]) -> Iterator[tuple[str, int]]:
    """The regular files that match, each once, in the patterns' order, with their bytes.

    Not by `glob`, which finds hidden names from Python 3.11 on only.
    """
    present = sorted(tree(root))
    found: dict[str, None] = {}
    for pattern in patterns:
        literal = re.sub(r"\[([*?[])\]", r"\1", pattern)  # as glob.escape makes it
        literal_match = os.path.lexists(os.path.join(root, literal)) and [os.path.normpath(literal)]
        found |= dict.fromkeys(
            literal_match or [path for path in present if matches(path, pattern)]
        )
    for path in found:
        with contextlib.suppress(OSError):
            status = os.lstat(os.path.join(root, path))
            if stat.S_ISREG(status.st_mode) and not path.startswith(".."):
                yield path, status.st_size


def matches(path: str, pattern: str) -> bool:
    """`*` stays within a folder; `**` does not, and `**/` is any number of folders, also none."""
    if "**" in pattern:
        return any(fnmatch.fnmatchcase(path, p) for p in (pattern, pattern.replace("**/", "")))
    # With as many slashes in one as in the other, no star can have one.
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)
