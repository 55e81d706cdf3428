"""The files of a folder that are sent to hosts, found by one walk from the top down.

These are not sent: files that .gitignore excludes and that are not in git's index (also by the
.gitignore of each parent folder, up to the top of the repository; git's private excludes are not
read), version control, bytecode, virtual environments, the runs, sweeps and reports that we wrote
into results/ (each run would send all earlier ones, and the program would seem to have changed;
other files in results/ are sent), sockets, pipes and dangling links.

A link inside the folder is sent as the file or folder that it points to. A link that leads out of
the folder is refused: its target is not on the hosts, and following it could send any file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Set
from dataclasses import replace
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..console.output import print_lines
from ..errors import UsageError
from ..inventory.files import RUN_ID
from ..inventory.git import git
from .gitignore import IgnoreFile, ignored, parse

_NEVER = frozenset({".git", ".hg", ".svn", "__pycache__"})
# Folders that we write into results/: a file in the folder, and the folder's name.
_WRITTEN = {
    "run.json": RUN_ID,
    "sweep.json": re.compile(r"sweep-[0-9a-f]{8}"),
    "sweep.lock": re.compile(r"sweep-[0-9a-f]{8}"),
    "report.html": re.compile(rf"scale-{RUN_ID.pattern}|report-{RUN_ID.pattern}-and-\d+-more"),
}
IN_INDEX = ("ls-files", "-z", "-ic", "--exclude-standard")
GIT_SECONDS = 60
_ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


@dataclass(frozen=True)
class LocalFile:
    """A file to send, before it is read. `size` is in bytes."""

    path: str
    source: Path
    size: int


@dataclass(frozen=True)
class _Folder:
    """A folder on the walk: its location, its path in the bundle (empty, or ends with `/`), the
    real paths of the folders above it, and the rules that apply in it (to `above` + path)."""

    place: Path
    path: str
    entered: tuple[str, ...]
    above: str
    rules: tuple[IgnoreFile, ...]


def files_in(root: Path) -> list[LocalFile]:
    """The files of `root` (a resolved path) to send, by path; UsageError names one that cannot."""
    try:
        found = {file.path: file for file in (*_in_index(root), *_walk(root, _start(root)))}
        return _without_own_output([found[path] for path in sorted(found)])
    except OSError as error:
        raise unreadable(Path(error.filename or root), error) from error


def _without_own_output(files: list[LocalFile]) -> list[LocalFile]:
    """Without files that are stdout or stderr of this command: they grow while they are read."""
    outputs = [status for number in (1, 2) if (status := _regular(number))]
    if not outputs:
        return files
    remaining = []
    for file in files:
        status = file.source.stat()
        if any(os.path.samestat(status, output) for output in outputs):
            print_lines(f"{file.path} is not sent: this command writes its output to it")
        else:
            remaining.append(file)
    return remaining


def _regular(descriptor: int) -> os.stat_result | None:
    """The status of an open regular file; None for a terminal, a pipe, or a closed descriptor."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def unreadable(place: Path, error: OSError) -> UsageError:
    """The error for a file or folder that cannot be read, with the system's message."""
    hint = "make it readable or add it to .gitignore"
    return UsageError(f"cannot read {place}: {error.strerror}", hint=hint)


def _start(root: Path) -> _Folder:
    """The first folder of the walk, with the rules of its parents up to the repository's top."""
    for top in (root, *root.parents):
        if (top / ".git").exists():
            break
    else:
        top = root
    between = [*reversed([p for p in root.parents if p == top or top in p.parents]), root]
    rules: tuple[IgnoreFile, ...] = ()
    for inner, outer in zip(between[1:], between, strict=False):
        base = _below(outer, top)
        rules += _rules_in(outer, base)
        if ignored(rules, base + inner.name, folder=True):
            rules = ()  # the user chose this folder: rules of parent folders do not apply
    return _Folder(root, "", (), _below(root, top), rules)


def _in_index(root: Path) -> Iterator[LocalFile]:
    """The files that git has in its index although .gitignore excludes them; none without git."""
    listed = git(root, *IN_INDEX, seconds=GIT_SECONDS)
    for path in map(Path, filter(None, (listed or "").split("\0"))):
        place = root / path
        status = _stat(place)
        if status is None or not stat.S_ISREG(status.st_mode) or _is_below_never_sent(root, path):
            continue
        check_name(place)
        if place.is_symlink():
            _check_link(root, place, str(path))
        yield LocalFile(path.as_posix(), place, status.st_size)


def _is_below_never_sent(root: Path, path: Path) -> bool:
    """Whether a file is in a folder that is never sent, whatever git says."""
    folders = [root / folder for folder in path.parents if folder.name]
    return not _NEVER.isdisjoint(path.parts) or any(
        _never_sent(folder, {entry.name for entry in folder.iterdir()}) for folder in folders
    )


def _below(folder: Path, top: Path) -> str:
    """A folder's path under `top`: empty for `top` itself, otherwise ending with a slash."""
    return "" if folder == top else folder.relative_to(top).as_posix() + "/"


def _rules_in(folder: Path, base: str) -> tuple[IgnoreFile, ...]:
    """The rules of the folder's own .gitignore, if it has one. As in git, a link does not count."""
    file = folder / ".gitignore"
    if not file.is_file() or file.is_symlink():
        return ()
    return (parse(file.read_bytes(), base),)


def _walk(root: Path, folder: _Folder) -> Iterator[LocalFile]:
    """Every file below `folder` to send. Targets of links must be below `root` (a real path)."""
    real = os.path.realpath(folder.place)
    if real in folder.entered:
        raise UsageError(
            f"{folder.path.rstrip('/')} is a link to a folder that contains it: it never ends",
            hint="add it to .gitignore",
        )
    with os.scandir(folder.place) as listed:
        entries = {entry.name: entry for entry in listed}
    if folder.path and _never_sent(Path(real), entries.keys()):
        return
    rules = folder.rules + _rules_in(folder.place, folder.above + folder.path)
    inside = replace(folder, rules=rules, entered=(*folder.entered, real))
    for name in sorted(entries):
        yield from _visit(root, inside, entries[name])


def _visit(root: Path, parent: _Folder, entry: os.DirEntry[str]) -> Iterator[LocalFile]:
    """The files to send for one entry of a folder: itself, the files below it, or none."""
    path = parent.path + entry.name
    is_folder = entry.is_dir(follow_symlinks=False)  # in git's rules a link is never a folder
    if entry.name in _NEVER or ignored(parent.rules, parent.above + path, folder=is_folder):
        return
    place = Path(entry.path)
    status = _stat(place)
    if status is None:
        return
    check_name(place)
    if entry.is_symlink():
        _check_link(root, place, path)
    if stat.S_ISDIR(status.st_mode):
        yield from _walk(root, replace(parent, place=place, path=path + "/"))
    elif stat.S_ISREG(status.st_mode):
        yield LocalFile(path, place, status.st_size)


def _stat(place: Path) -> os.stat_result | None:
    """The status of an entry or its target; None for a dangling link."""
    try:
        return place.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _never_sent(folder: Path, names: Set[str]) -> bool:
    """Whether a folder that contains these names is a virtual environment, or one that we wrote
    into results/."""
    if not _ENVIRONMENT_MARKS.isdisjoint(names):
        return True
    return folder.parent.name == "results" and any(
        file in names and name.fullmatch(folder.name) for file, name in _WRITTEN.items()
    )


def check_name(place: Path) -> None:
    """Refuse a name that a manifest or a host's file system cannot store unchanged."""
    name = place.name
    if "\n" in name or "\r" in name or not _is_text(name):
        raise UsageError(
            f"the name {os.fsencode(name)!r} in {place.parent} is not one line of UTF-8",
            hint="rename the file",
        )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_link(root: Path, place: Path, path: str) -> None:
    """Refuse a link whose target is not below `root`."""
    target = place.resolve()
    if not target.is_relative_to(root):
        raise UsageError(
            f"{path} is a link to {target}, which is outside {root} and would not be on the hosts",
            hint="copy it into the folder, add the link to .gitignore, or choose a --workdir that"
            " contains both",
        )
