"""Files of a host: written atomically, stored by sha256, read and removed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Mapping, Sequence

from railhead.documents.agent.files import (
    BundleFile,
    Changed,
    Needed,
    Placed,
    PlaceFolder,
    Read,
    Remove,
    Removed,
    Replace,
    Replaced,
    Text,
    Tree,
    Write,
)

from ..base.regular_files import open_regular, size_and_sha256
from .channel import IN, operations, send_event

PART = ".part-"  # in the names of incomplete files and folders


def write(request: Write) -> Changed:
    """Write the files whose content or mode differs."""
    changed = []
    for file in request.files:
        path = os.path.realpath(os.path.expanduser(file.path))  # the user's own links stay links
        data, mode = file.text.encode(), file.mode
        with contextlib.suppress(OSError), open(path, "rb") as existing:
            if existing.read() == data and os.stat(path).st_mode & 0o7777 == mode:
                continue
        make_private(os.path.dirname(path))
        replace(path, data, mode)
        changed.append(path)
    return Changed(tuple(changed))


def make_private(folder: str) -> None:
    """Create a folder and its missing parents, each accessible to the user alone: `os.makedirs`
    sets the mode of the last one only."""
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        make_private(above)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def replace(path: str, data: bytes, mode: int) -> None:
    """Write a file atomically: after a crash or on a full disk there is never a partial file."""
    # Not derived from `path`, whose name may be too long.
    partial = part_of(os.path.join(os.path.dirname(path), ""))
    try:
        with open(partial, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as out:
            out.write(data)
            os.fchmod(out.fileno(), mode)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise


def part_of(path: str) -> str:
    """The temporary name of a file or folder before it is renamed to `path`. It contains the host's
    name because hosts may share a home."""
    return f"{path}{PART}{os.uname().nodename}-{os.getpid()}"


def clear_parts(folder: str) -> None:
    """Remove the incomplete files that killed processes of this host left in a folder."""
    for name in os.listdir(folder):
        host, _, pid = name.rpartition(PART)[2].rpartition("-")
        ours = PART in name and host == os.uname().nodename and pid.isdigit()
        if ours and not os.path.exists(f"/proc/{pid}"):
            clear(os.path.join(folder, name))


def tree(request: Tree) -> Placed:
    """Make `dest` contain the manifest's files; request only contents that neither `dest` nor
    `blobs` has. `dest` itself may be a link of the user; a write never follows a link inside it."""
    blobs, dest = os.path.expanduser(request.blobs), os.path.expanduser(request.dest)
    make_private(dest)
    clear_parts(dest)
    if request.prune:
        drop_others(dest, {file.path for file in request.manifest})
    lacking = absent(request.manifest, dest)
    sent = fetch_missing(lacking, blobs)
    put(lacking, blobs, dest)
    return Placed(sent, tuple(file.path for file in lacking))


def place_folder(request: PlaceFolder) -> Placed:
    """Create the folder `dest`, named by a digest, with all files of the manifest. It is filled
    under a temporary name and then renamed, so it is never incomplete. It replaces a damaged
    folder."""
    blobs, dest = os.path.expanduser(request.blobs), os.path.expanduser(request.dest)
    manifest = request.manifest
    is_complete = has_files(dest, manifest)
    sent = fetch_missing(() if is_complete else manifest, blobs)
    if is_complete:
        return Placed(sent, ())
    parent, partial = os.path.dirname(dest), part_of(dest)
    make_private(parent)
    clear_parts(parent)
    try:
        os.makedirs(partial, mode=0o700, exist_ok=True)
        lacking = absent(manifest, partial)
        put(lacking, blobs, partial)
        rename_into_place(partial, dest, manifest)
    finally:
        clear(partial)
    return Placed(sent, tuple(file.path for file in lacking))


def rename_into_place(partial: str, dest: str, manifest: Sequence[BundleFile]) -> None:
    """Rename a complete folder to `dest`; removes a damaged one there."""
    try:
        os.rename(partial, dest)  # this also replaces an empty folder
    except OSError:
        if has_files(dest, manifest):  # another process was faster
            return
        damaged = part_of(f"{dest}.damaged")
        os.rename(dest, damaged)
        os.rename(partial, dest)
        clear(damaged)


def fetch_missing(manifest: Sequence[BundleFile], blobs: str) -> int:
    """Request the contents that are not in `blobs`; returns their number."""
    make_private(blobs)
    clear_parts(blobs)
    contents = sorted({file.sha256: file for file in manifest}.items())
    missing = {
        sha256: file.size
        for sha256, file in contents
        if not has_content(f"{blobs}/{sha256}", file.size, sha256)
    }
    send_event(Needed(tuple(missing)))
    receive(int(IN.readline()), missing, blobs)
    return len(missing)


def has_files(dest: str, manifest: Sequence[BundleFile]) -> bool:
    """Whether a folder has every file of the manifest."""
    return all(is_placed(os.path.join(dest, file.path), file) for file in manifest)


def is_placed(path: str, file: BundleFile) -> bool:
    """Whether a path is a file with the right content and mode."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    same_mode = stat.S_ISREG(mode) and stat.S_IMODE(mode) == mode_of(file)
    return same_mode and has_content(path, file.size, file.sha256)


def mode_of(file: BundleFile) -> int:
    """The mode for a file."""
    return 0o755 if file.executable else 0o644


def has_content(path: str, size: int, sha256: str) -> bool:
    """Whether a file exists with this content; a power failure can damage it."""
    try:
        return os.path.getsize(path) == size and size_and_sha256(path)[1] == sha256
    except OSError:
        return False


def receive(size: int, missing: Mapping[str, int], blobs: str) -> None:
    """Read compressed contents, one after the other, and verify their sha256. `missing`: {sha256:
    bytes}."""
    data = zlib.decompress(IN.read(size)) if size else b""
    if len(data) != sum(missing.values()):
        raise ValueError("other contents arrived than were requested")
    begin = 0
    for sha256, count in missing.items():
        content, begin = data[begin : begin + count], begin + count
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError("a blob arrived whose content does not match its sha256")
        replace(os.path.join(blobs, sha256), content, 0o400)


def drop_others(dest: str, paths: set[str]) -> None:
    """Remove everything that is not in `paths`, including links to folders and empty folders."""
    for folder, folders, names in os.walk(dest, topdown=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            path = os.path.join(folder, name)
            if path.removeprefix(os.path.join(dest, "")) not in paths:
                os.remove(path)
        if folder != dest:
            with contextlib.suppress(OSError):  # the folder is not empty
                os.rmdir(folder)


def absent(manifest: Sequence[BundleFile], dest: str) -> list[BundleFile]:
    """The files that are not at their paths; removes folders, links and special files that block
    them."""
    clear_folders(dest, [file.path for file in manifest])
    files = []
    for file in manifest:
        path = os.path.join(dest, file.path)
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            clear(path)
        if not is_placed(path, file):
            files.append(file)
    return files


def put(manifest: Sequence[BundleFile], blobs: str, dest: str) -> None:
    """Write files at their paths; `absent` has removed what blocks them."""
    for file in manifest:
        path = os.path.join(dest, file.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.path.join(blobs, file.sha256), "rb") as blob:
            replace(path, blob.read(), mode_of(file))


def clear_folders(dest: str, paths: Sequence[str]) -> None:
    """Remove everything except real folders from the parents of these paths. Each parent is checked
    once: a program has many files in a few folders."""
    folders = set[str]()
    for path in paths:
        while (path := os.path.dirname(path)) and path not in folders:
            folders.add(path)
    for folder in sorted(folders):  # parents come first
        place = os.path.join(dest, folder)
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place)):
            os.remove(place)


def read(request: Read) -> Text:
    """The text of a small file; None if it does not exist."""
    path = os.path.expanduser(request.path)
    return Text(existing_text(path) if request.strict else text_of(path))


def replace_text(request: Replace) -> Replaced:
    """Write a small file, unless somebody else changed it since it was read."""
    path = os.path.expanduser(request.file.path)
    if existing_text(path) != request.before:
        return Replaced(False)
    write(Write((request.file,)))
    return Replaced(True)


def text_of(path: str) -> str | None:
    """The text of a regular file, or None; the user's own links are followed."""
    try:
        return existing_text(path)
    except OSError:
        return None


def existing_text(path: str) -> str | None:
    """The text of a regular file; None if it does not exist. OSError if it cannot be read."""
    try:
        with io.TextIOWrapper(open_regular(os.path.realpath(path)), errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def remove(request: Remove) -> Removed:
    """Remove files and folders; a missing path is not an error."""
    paths = {path: os.path.expanduser(path) for path in request.paths}
    for path in paths.values():
        clear(path)
    return Removed(tuple(path for path, there in paths.items() if os.path.lexists(there)))


def clear(path: str) -> None:
    """Remove a file or a folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil  # loaded late: it loads five compression modules

        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


OPS = operations(
    (Write, write),
    (Read, read),
    (Replace, replace_text),
    (Remove, remove),
    (Tree, tree),
    (PlaceFolder, place_folder),
)
