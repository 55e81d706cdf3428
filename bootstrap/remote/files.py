"""Files of a host: written all or not at all, kept by content, read and removed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import stat
import tarfile
import zlib
from typing import Any

from bootstrap.remote.channel import IN, say
from bootstrap.remote.manifest import open_regular


def write(files: list[tuple[str, int, str]]) -> dict[str, Any]:
    """Write (path, mode, text) files whose content or mode differs; answer the changed paths."""
    changed = []
    for name, mode, text in files:
        path = os.path.realpath(os.path.expanduser(name))  # a link of the user's own stays one
        data = text.encode()
        with contextlib.suppress(OSError), open(path, "rb") as had:
            if had.read() == data and os.stat(path).st_mode & 0o7777 == mode:
                continue
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace(path, data, mode)
        changed.append(path)
    return {"changed": changed}


def replace(path: str, data: bytes, mode: int) -> None:
    """All of it or none: a reader, a crash or a full disk never leaves half a file."""
    part = f"{path}.part{os.getpid()}"
    try:
        with open(part, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
            out.write(data)
            os.fchmod(out.fileno(), mode)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)
        raise


def tree(
    manifest: list[dict[str, Any]], blobs: str, dest: str, prune: bool = True
) -> dict[str, Any]:
    """Make `dest` hold exactly the manifest's files; ask only for contents not in `blobs`.

    `dest` itself may be a link of the user's; nothing is ever written through one inside it.
    """
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    os.makedirs(blobs, mode=0o700, exist_ok=True)
    os.makedirs(dest, mode=0o700, exist_ok=True)
    wanted = {entry["sha256"]: entry for entry in manifest}
    need = [d for d, entry in wanted.items() if not whole(os.path.join(blobs, d), entry)]
    say(event={"need": need})
    receive(int(IN.readline()), blobs)
    if prune:
        drop_others(dest, {entry["path"] for entry in manifest})
    changed = [entry["path"] for entry in manifest if place(entry, blobs, dest)]
    return {"sent": len(need), "changed": changed}


def whole(path: str, entry: dict[str, Any]) -> bool:
    """Whether a blob is there in its full length; `replace` never leaves another content."""
    try:
        return os.path.getsize(path) == int(entry["size"])
    except OSError:
        return False


def receive(size: int, blobs: str) -> None:
    """Read a compressed tar of blobs; each is checked against the sha256 that is its name."""
    if not size:
        return
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(IN.read(size)))) as tar:
        for member in tar:
            content = tar.extractfile(member)
            data = content.read() if content else b""
            if hashlib.sha256(data).hexdigest() != member.name:
                raise ValueError("a blob came with another content than its sha256 says")
            replace(os.path.join(blobs, member.name), data, 0o400)


def drop_others(dest: str, paths: set[str]) -> None:
    """Remove what is at none of the paths, links to folders and emptied folders too."""
    for folder, folders, names in os.walk(dest, topdown=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            path = os.path.join(folder, name)
            if os.path.relpath(path, dest) not in paths:
                os.remove(path)
        if folder != dest:
            with contextlib.suppress(OSError):  # it holds something still
                os.rmdir(folder)


def place(entry: dict[str, Any], blobs: str, dest: str) -> bool:
    """Put one file at its path; answers whether that changed anything."""
    path = os.path.join(dest, entry["path"])
    clear_way(dest, entry["path"])
    mode = 0o755 if entry["executable"] else 0o644
    with contextlib.suppress(OSError), open(path, "rb") as had:
        same = os.fstat(had.fileno()).st_mode & 0o7777 == mode
        if same and hashlib.sha256(had.read()).hexdigest() == entry["sha256"]:
            return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.path.join(blobs, entry["sha256"]), "rb") as blob:
        replace(path, blob.read(), mode)
    return True


def clear_way(dest: str, relative: str) -> None:
    """Leave true folders above the path, and at it a true file or nothing."""
    *above, _ = relative.split("/")
    for depth in range(len(above)):
        folder = os.path.join(dest, *above[: depth + 1])
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            os.remove(folder)
    path = os.path.join(dest, relative)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        elif not stat.S_ISREG(mode):
            os.remove(path)


def read(paths: list[str]) -> dict[str, str | None]:
    """The text of small files; None for one that is not there."""
    return {path: text_of(os.path.expanduser(path)) for path in paths}


def text_of(path: str) -> str | None:
    """A regular file's text, or None; a link of the user's own is followed."""
    try:
        with io.TextIOWrapper(open_regular(os.path.realpath(path)), errors="replace") as file:
            return file.read()
    except OSError:
        return None


def remove(paths: list[str]) -> dict[str, Any]:
    """Remove files and folders of ours; a path that is not there is fine."""
    for path in map(os.path.expanduser, paths):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return {"left": [p for p in paths if os.path.lexists(os.path.expanduser(p))]}
