"""Files of a host: written atomically, stored by sha256, read and removed."""

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

from ..run.manifest import open_regular
from .channel import IN, send_message

PART = ".part-"  # in the names of incomplete files and folders


def write(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the files whose content or mode differs; returns their paths."""
    changed = []
    for file in files:
        path = os.path.realpath(os.path.expanduser(file["path"]))  # the user's own links stay links
        data, mode = file["text"].encode(), file["mode"]
        with contextlib.suppress(OSError), open(path, "rb") as existing:
            if existing.read() == data and os.stat(path).st_mode & 0o7777 == mode:
                continue
        make_private(os.path.dirname(path))
        replace(path, data, mode)
        changed.append(path)
    return {"changed": changed}


def make_private(folder: str) -> None:
    """Create a folder and its missing parents, each for the user alone: `os.makedirs` applies its
    mode to the last one only."""
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        make_private(above)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def replace(path: str, data: bytes, mode: int) -> None:
    """Write a file atomically: after a crash or on a full disk there is never a partial file."""
    part = part_of(
        os.path.join(os.path.dirname(path), "")
    )  # not from `path` itself: its name may be too long
    try:
        with open(part, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
            out.write(data)
            os.fchmod(out.fileno(), mode)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)
        raise


def part_of(path: str) -> str:
    """The temporary name of a file or folder before it is renamed to `path`. It contains the host's
    name because hosts may share a home."""
    return f"{path}{PART}{os.uname().nodename}-{os.getpid()}"


def clear_parts(folder: str) -> None:
    """Remove incomplete files in a folder that killed processes of this host left."""
    for name in os.listdir(folder):
        host, _, pid = name.rpartition(PART)[2].rpartition("-")
        ours = PART in name and host == os.uname().nodename and pid.isdigit()
        if ours and not os.path.exists(f"/proc/{pid}"):
            remove([os.path.join(folder, name)])


def tree(
    manifest: list[dict[str, Any]], blobs: str, dest: str, prune: bool = True
) -> dict[str, Any]:
    """Make `dest` contain exactly the manifest's files; request only contents not in `blobs`.

    `dest` itself may be a link of the user; links inside it are never followed for a write.
    """
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    sent = fetch_missing(manifest, blobs)
    make_private(dest)
    clear_parts(dest)
    if prune:
        drop_others(dest, {entry["path"] for entry in manifest})
    changed = [entry["path"] for entry in manifest if place(entry, blobs, dest)]
    return {"sent": sent, "changed": changed}


def place_folder(manifest: list[dict[str, Any]], blobs: str, dest: str) -> dict[str, Any]:
    """Create the folder `dest`, named by a digest, with all files of the manifest.

    It is filled under a temporary name and renamed, so it is never incomplete. A damaged one is
    replaced.
    """
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    sent = fetch_missing(manifest, blobs)
    if has_files(dest, manifest):
        return {"sent": sent, "changed": []}
    parent, part = os.path.dirname(dest), part_of(dest)
    make_private(parent)
    clear_parts(parent)
    try:
        os.makedirs(part, mode=0o700, exist_ok=True)
        changed = [entry["path"] for entry in manifest if place(entry, blobs, part)]
        rename_into_place(part, dest, manifest)
    finally:
        remove([part])
    return {"sent": sent, "changed": changed}


def rename_into_place(part: str, dest: str, manifest: list[dict[str, Any]]) -> None:
    """Rename a complete folder to `dest`, and remove a damaged one there."""
    try:
        os.rename(part, dest)  # also replaces an empty folder
    except OSError:
        if has_files(dest, manifest):  # another process was faster
            return
        damaged = part_of(f"{dest}.damaged")
        os.rename(dest, damaged)
        os.rename(part, dest)
        remove([damaged])


def fetch_missing(manifest: list[dict[str, Any]], blobs: str) -> int:
    """Request the contents that are not in `blobs`; returns their number."""
    make_private(blobs)
    clear_parts(blobs)
    wanted = {entry["sha256"]: entry for entry in manifest}
    missing = [d for d, entry in wanted.items() if not has_content(os.path.join(blobs, d), entry)]
    send_message(event={"need": missing})
    receive(int(IN.readline()), blobs)
    return len(missing)


def has_files(dest: str, manifest: list[dict[str, Any]]) -> bool:
    """Whether a folder has every file of the manifest."""
    return all(is_placed(os.path.join(dest, entry["path"]), entry) for entry in manifest)


def is_placed(path: str, entry: dict[str, Any]) -> bool:
    """Whether a file has the content and the mode of its entry."""
    try:
        status = os.lstat(path)
        same_mode = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == mode_of(entry)
        return same_mode and sha256_of(path) == entry["sha256"]
    except OSError:
        return False


def mode_of(entry: dict[str, Any]) -> int:
    """The mode for an entry's file."""
    return 0o755 if entry["executable"] else 0o644


def sha256_of(path: str) -> str:
    """The sha256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def has_content(path: str, entry: dict[str, Any]) -> bool:
    """Whether a blob exists with the right content; a power failure can damage it."""
    try:
        return os.path.getsize(path) == int(entry["size"]) and sha256_of(path) == entry["sha256"]
    except OSError:
        return False


def receive(size: int, blobs: str) -> None:
    """Read a compressed tar of blobs; each is verified by its name, its sha256."""
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
    """Remove everything not in `paths`, including links to folders and empty folders."""
    for folder, folders, names in os.walk(dest, topdown=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            path = os.path.join(folder, name)
            if os.path.relpath(path, dest) not in paths:
                os.remove(path)
        if folder != dest:
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(folder)


def place(entry: dict[str, Any], blobs: str, dest: str) -> bool:
    """Write one file at its path; returns whether anything changed."""
    path = os.path.join(dest, entry["path"])
    clear_path(dest, entry["path"])
    if is_placed(path, entry):
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.path.join(blobs, entry["sha256"]), "rb") as blob:
        replace(path, blob.read(), mode_of(entry))
    return True


def clear_path(dest: str, relative: str) -> None:
    """Remove what is in the way: the parents must be real folders, the path a file or free."""
    *parent, _ = relative.split("/")
    for depth in range(len(parent)):
        folder = os.path.join(dest, *parent[: depth + 1])
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            os.remove(folder)
    path = os.path.join(dest, relative)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        elif not stat.S_ISREG(mode):
            os.remove(path)


def read(path: str) -> dict[str, str | None]:
    """The text of a small file; None if it does not exist."""
    return {"text": text_of(os.path.expanduser(path))}


def text_of(path: str) -> str | None:
    """The text of a regular file, else None; the user's own links are followed."""
    try:
        with io.TextIOWrapper(open_regular(os.path.realpath(path)), errors="replace") as file:
            return file.read()
    except OSError:
        return None


def remove(paths: list[str]) -> dict[str, Any]:
    """Remove files and folders; a missing path is no error. Returns the paths that are left."""
    for path in map(os.path.expanduser, paths):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return {"left": [p for p in paths if os.path.lexists(os.path.expanduser(p))]}
