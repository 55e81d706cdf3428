"""Data of a run on a host: ~/.railhead/data/<digest>/ is complete, or it does not exist.

A folder is filled as `<digest>.part` and renamed at the end; `<digest>.json` next to it lists its
files, to detect removed ones later. An interrupted transfer continues where it stopped.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator, Sequence

from railhead.documents.agent.data import (
    DataFolder,
    DataFolders,
    DataState,
    NeededParts,
    PathKind,
    PathKinds,
    PathsState,
    Received,
    ReceiveData,
)

from ..base import locks
from .channel import IN, operations, send_event
from .files import clear, drop_others, has_content, make_private, replace

PIECE = 1 << 20
AT_ONCE = 100_000  # files in one request: the other side limits the values of an answer
Entry = tuple[str, int, str]  # path, bytes, sha256


def data_state(request: DataState) -> DataFolders:
    """The data that is on this host, and the free bytes of the disk."""
    folders = {}
    for name in request.folders:
        folder = os.path.expanduser(name)
        arriving = glob.glob(f"{glob.escape(folder)}.incoming-*")
        size = size_of(f"{folder}.part") + sum(map(os.path.getsize, arriving))
        folders[name] = DataFolder(is_complete(folder), size)
    status = os.statvfs(os.path.expanduser("~"))
    return DataFolders(folders, status.f_bavail * status.f_frsize)


def paths_state(request: PathsState) -> PathKinds:
    """The kind of each path."""
    return PathKinds({path: kind_of(os.path.expanduser(path)) for path in request.paths})


def kind_of(path: str) -> PathKind:
    """The kind of a path."""
    try:
        if os.path.isdir(path):
            return "folder" if os.listdir(path) else "empty"
    except OSError:
        return "unreadable"
    if not os.path.exists(path):
        return "missing"
    return "file" if os.access(path, os.R_OK) else "unreadable"


def receive_data(request: ReceiveData) -> Received:
    """Fill a folder with exactly these files. Events request missing parts, one after the other; an
    event may request nothing."""
    folder, manifest = os.path.expanduser(request.folder), request.manifest
    make_private(os.path.dirname(folder))
    # Another host that shares the home may hold the lock for hours while it receives the same data.
    # Meanwhile, requests for nothing show that this host works.
    with locks.wait_lock(f"{folder}.lock", waiting=lambda: send_event(NeededParts(())), every=1):
        needed = [] if is_complete(folder) else missing(folder, manifest)
        wrong: list[str] = []
        for first in range(0, len(needed), AT_ONCE):
            batch = needed[first : first + AT_ONCE]
            send_event(NeededParts(tuple(batch)))
            wrong += received(folder, manifest, batch)
        if not wrong and not is_complete(folder):
            finish(folder, manifest)
    return Received(tuple(wrong))


def missing(folder: str, manifest: Sequence[Entry]) -> list[tuple[int, int]]:
    """The files to be sent, each with the number of bytes that this host already has."""
    partial = f"{folder}.part"
    if os.path.isdir(folder) and not os.path.isdir(partial):
        os.rename(folder, partial)  # a file was removed from it: the others are used
    make_private(partial)
    drop_others(partial, {path for path, _, _ in manifest})
    needed = []
    for number, (path, size, sha256) in enumerate(manifest):
        if not has_content(os.path.join(partial, path), size, sha256):
            needed.append((number, size_of_file(incoming(folder, number), at_most=size)))
    return needed


def incoming(folder: str, number: int) -> str:
    """The path of a file while it is received."""
    return f"{folder}.incoming-{number}"


class Content:
    """The bytes that follow a request on the channel: files without framing."""

    def __init__(self, size: int) -> None:
        self.remaining = size

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; OSError if the channel closed."""
        data = IN.read(min(size, PIECE))
        if not data:
            raise ConnectionError("the connection broke during a transfer")
        self.remaining -= len(data)
        return data

    def drain(self) -> None:
        """Read the remaining data, so that the next request can be read."""
        with contextlib.suppress(OSError):
            while self.remaining:
                self.read(self.remaining)


def received(
    folder: str, manifest: Sequence[Entry], needed: list[tuple[int, int]]
) -> Iterator[str]:
    """Receive the files in this order; yields the path of each file whose content differs."""
    content = Content(sum(manifest[number][1] - offset for number, offset in needed))
    try:
        for number, offset in needed:
            path, size, sha256 = manifest[number]
            partial = incoming(folder, number)
            if receive_rest(content, partial, offset, size) == sha256:
                place = os.path.join(f"{folder}.part", path)  # `missing` has made it free
                os.chmod(partial, 0o444)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                os.replace(partial, place)
            else:
                clear(partial)
                yield path
    finally:
        content.drain()


def receive_rest(content: Content, path: str, offset: int, size: int) -> str:
    """Append the bytes from `offset` to `size` of a file; returns the sha256 of the whole file."""
    digest = hashlib.sha256()
    with open(path, "r+b" if offset else "w+b") as file:
        while file.tell() < offset:
            digest.update(file.read(min(PIECE, offset - file.tell())))
        while file.tell() < size:
            data = content.read(size - file.tell())
            digest.update(data)
            file.write(data)
    return digest.hexdigest()


def finish(folder: str, manifest: Sequence[Entry]) -> None:
    """Write the list of files and rename the complete folder."""
    replace(f"{folder}.json", json.dumps([entry[:2] for entry in manifest]).encode(), 0o600)
    clear(folder)  # if it is damaged
    os.sync()  # the folder must not appear before its contents
    os.rename(f"{folder}.part", folder)


def is_complete(folder: str) -> bool:
    """Whether a folder has every file of its list, with its size."""
    try:
        with open(f"{folder}.json") as file:
            entries = json.load(file)
        return all(os.path.getsize(os.path.join(folder, path)) == n for path, n in entries)
    except (OSError, ValueError):
        return False


def size_of(folder: str) -> int:
    """The bytes of the files below a folder; 0 if there is none."""
    total = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(inside, name))
    return total


def size_of_file(path: str, at_most: int) -> int:
    """The bytes of a file, at most `at_most`; 0 if there is none."""
    with contextlib.suppress(OSError):
        return min(os.path.getsize(path), at_most)
    return 0


OPS = operations((DataState, data_state), (PathsState, paths_state), (ReceiveData, receive_data))
