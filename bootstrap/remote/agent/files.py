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

from bootstrap.remote.agent.channel import IN, send_message
from bootstrap.remote.run.manifest import open_regular

PART = ".part-"  # in the name of what is not complete yet


def write(files: list[tuple[str, int, str]]) -> dict[str, Any]:
    """Write (path, mode, text) files whose content or mode differs; answer the changed paths."""
    changed = []
    for name, mode, text in files:
        path = os.path.realpath(os.path.expanduser(name))  # a link of the user's own stays one
        data = text.encode()
        with contextlib.suppress(OSError), open(path, "rb") as existing:
            if existing.read() == data and os.stat(path).st_mode & 0o7777 == mode:
                continue
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace(path, data, mode)
        changed.append(path)
    return {"changed": changed}


def replace(path: str, data: bytes, mode: int) -> None:
    """All of it or none: a reader, a crash or a full disk never leaves half a file."""
    part = part_of(os.path.join(os.path.dirname(path), ""))  # short: `path` may have a long name
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
    """Where a file or folder is written before it is renamed to `path`. Hosts may share a home, so
    the name has the host in it too."""
    return f"{path}{PART}{os.uname().nodename}-{os.getpid()}"


def clear_parts(folder: str) -> None:
    """Remove what processes of this host that were killed left half written in a folder."""
    for name in os.listdir(folder):
        host, _, pid = name.rpartition(PART)[2].rpartition("-")
        ours = PART in name and host == os.uname().nodename and pid.isdigit()
        if ours and not os.path.exists(f"/proc/{pid}"):
            remove([os.path.join(folder, name)])


def tree(
    manifest: list[dict[str, Any]], blobs: str, dest: str, prune: bool = True
) -> dict[str, Any]:
    """Make `dest` hold exactly the manifest's files; ask only for contents not in `blobs`.

    `dest` itself may be a link of the user's; nothing is ever written through one inside it.
    """
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    sent = fetch_missing(manifest, blobs)
    os.makedirs(dest, mode=0o700, exist_ok=True)
    clear_parts(dest)
    if prune:
        drop_others(dest, {entry["path"] for entry in manifest})
    changed = [entry["path"] for entry in manifest if place(entry, blobs, dest)]
    return {"sent": sent, "changed": changed}


def place_folder(manifest: list[dict[str, Any]], blobs: str, dest: str) -> dict[str, Any]:
    """Make the folder `dest`, which is named by a digest, appear with all files of the manifest.

    It is filled beside its place and renamed, so that it is never there in part. A damaged one is
    replaced.
    """
    blobs, dest = os.path.expanduser(blobs), os.path.expanduser(dest)
    sent = fetch_missing(manifest, blobs)
    if has_files(dest, manifest):
        return {"sent": sent, "changed": []}
    parent, part = os.path.dirname(dest), part_of(dest)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    clear_parts(parent)
    try:
        os.makedirs(part, mode=0o700, exist_ok=True)
        changed = [entry["path"] for entry in manifest if place(entry, blobs, part)]
        rename_into_place(part, dest, manifest)
    finally:
        remove([part])
    return {"sent": sent, "changed": changed}


def rename_into_place(part: str, dest: str, manifest: list[dict[str, Any]]) -> None:
    """Rename a complete folder to its place, and remove a damaged one that is there."""
    try:
        os.rename(part, dest)  # also over an empty folder
    except OSError:
        if has_files(dest, manifest):  # another process was faster
            return
        damaged = part_of(f"{dest}.damaged")
        os.rename(dest, damaged)
        os.rename(part, dest)
        remove([damaged])


def fetch_missing(manifest: list[dict[str, Any]], blobs: str) -> int:
    """Ask for the contents that are not in `blobs`; answers how many those were."""
    os.makedirs(blobs, mode=0o700, exist_ok=True)
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
    """The mode that a shipped file gets."""
    return 0o755 if entry["executable"] else 0o644


def sha256_of(path: str) -> str:
    """The sha256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def has_content(path: str, entry: dict[str, Any]) -> bool:
    """Whether a blob is there with its full content; a power cut can leave another one."""
    try:
        return os.path.getsize(path) == int(entry["size"]) and sha256_of(path) == entry["sha256"]
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
    clear_path(dest, entry["path"])
    if is_placed(path, entry):
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.path.join(blobs, entry["sha256"]), "rb") as blob:
        replace(path, blob.read(), mode_of(entry))
    return True


def clear_path(dest: str, relative: str) -> None:
    """Leave true folders above the path, and at it a true file or nothing."""
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
