"""The bundle: the files that are sent to the hosts, named by a hash (`bundle_files` finds them);
and the archive of our own programs that run there."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

import railhead.documents
from railhead.documents.agent.files import BundleFile
from railhead.documents.lazy import dataclass

from ..errors import RailheadError, UsageError
from .bundle_files import LocalFile, files_in, unreadable

LIMIT = 200_000_000
"""Bytes that a bundle may hold."""
PACKED = (".whl", ".gz")  # already compressed
PACKAGES = Path(railhead.documents.__file__).parents[2]  # the folder of `railhead`


@dataclass(frozen=True)
class Bundle:
    """Files to send, sorted by path; `root` is their folder here, not a part of the digest.
    `elsewhere`: {path of a file: its folder, if that is not `root`}."""

    root: Path
    files: tuple[BundleFile, ...]
    elsewhere: Mapping[str, Path] = field(default_factory=dict, hash=False)  # a dict has no hash

    @cached_property
    def digest(self) -> str:
        """The sha256 over paths, contents and executable bits: the bundle's name on a host."""
        lines = (f"{file.sha256} {int(file.executable)} {file.path}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def total_bytes(self) -> int:
        """The sum of all files' sizes."""
        return sum(file.size for file in self.files)


def pack_folder(folder: Path, limit: int = LIMIT) -> Bundle:
    """Bundle a folder; UsageError if it exceeds `limit` bytes or a file cannot be sent."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    root = folder.resolve()
    files = files_in(root)
    _refuse_large(root, files, limit)
    return Bundle(root, tuple(_read(file) for file in files))


def pack_file(path: Path) -> Bundle:
    """Bundle one file under its name."""
    path = path.resolve()
    return Bundle(path.parent, (_read(LocalFile(path.name, path, path.stat().st_size)),))


def pack_every_file(folder: Path, limit: int = LIMIT) -> Bundle:
    """Bundle all regular files of a folder, whatever .gitignore says; without links."""
    root = folder.resolve()
    paths = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = [LocalFile(p.relative_to(root).as_posix(), p, p.stat().st_size) for p in paths]
    _refuse_large(root, files, limit)
    return Bundle(root, tuple(_read(file) for file in files))


def pack_training(repo: Path) -> Bundle:
    """Bundle the training code in `repo`, and the documents that it shares with `bootstrap`."""
    if not (repo / "training" / "__main__.py").is_file():
        raise UsageError(f"no training/ in {repo}", hint="install Railhead again: it is incomplete")
    roots = {"railhead/documents": PACKAGES, "training": repo.resolve()}
    files = {
        f"{folder}/{file.path}": file
        for folder, root in roots.items()
        for file in pack_folder(root / folder).files
    }
    return Bundle(
        repo.resolve(),
        tuple(replace(file, path=path) for path, file in files.items()),
        {path: PACKAGES for path in files if path.startswith("railhead/")},
    )


def pack_script(script: Path, workdir: Path | None = None) -> tuple[Bundle, str]:
    """Bundle a script's folder, or the `workdir` around it; also returns its path in the bundle."""
    _check_script(script)
    if workdir is None:
        _refuse_home(script)
    bundle = pack_folder(script.parent if workdir is None else workdir)
    path = _path_in(bundle.root, script)
    if path not in {file.path for file in bundle.files}:
        raise UsageError(
            f"{path} is not among the files that are uploaded from {bundle.root}: .gitignore"
            " excludes it, or it is in a folder that is never uploaded",
            hint="take it out of .gitignore, or choose another folder with --workdir",
        )
    return bundle, path


def contents(bundle: Bundle, needed: Iterable[str]) -> bytes:
    """The contents whose sha256 is in `needed`, each once, concatenated in the order of their
    hashes, compressed by zlib. Equal arguments give equal bytes.

    KeyError: a hash is not in the bundle. RailheadError: a file changed after it was hashed.
    """
    by_hash = {file.sha256: file for file in bundle.files}
    # Level 1 at most: higher levels are slower than a fast link.
    deflate = zlib.compressobj(0 if all(file.path.endswith(PACKED) for file in bundle.files) else 1)
    files = (by_hash[sha256] for sha256 in sorted(set(needed)))
    unchanged = (_unchanged(bundle.elsewhere.get(file.path, bundle.root), file) for file in files)
    return b"".join([*map(deflate.compress, unchanged), deflate.flush()])


def _refuse_large(root: Path, files: list[LocalFile], limit: int) -> None:
    """Refuse more than `limit` bytes, naming the largest files."""
    total = sum(file.size for file in files)
    if total <= limit:
        return
    largest = sorted(files, key=lambda file: (-file.size, file.path))[:5]
    lines = "".join(f"\n  {file.size / 1e6:8.1f} MB  {file.path}" for file in largest)
    raise UsageError(
        f"{root} holds {total / 1e6:.1f} MB in {len(files)} files, more than the"
        f" {limit / 1e6:.1f} MB that may be sent; the largest:{lines}",
        hint="give data by --data NAME=FOLDER, which has no limit; add what the run does not need"
        " to .gitignore, or choose a smaller folder with --workdir",
    )


def _read(file: LocalFile) -> BundleFile:
    """Hash one file; its size is the number of bytes read: it may have grown since the walk."""
    sha256, size = hashlib.sha256(), 0
    try:
        with file.source.open("rb") as content:
            executable = bool(os.fstat(content.fileno()).st_mode & stat.S_IXUSR)
            while piece := content.read(1 << 20):
                sha256.update(piece)
                size += len(piece)
    except OSError as error:
        raise unreadable(file.source, error) from error
    return BundleFile(file.path, sha256.hexdigest(), size, executable)


def _unchanged(root: Path, file: BundleFile) -> bytes:
    """A file's content; RailheadError if it has changed since it was hashed."""
    try:
        content = (root / file.path).read_bytes()
    except OSError as error:
        raise unreadable(root / file.path, error) from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise RailheadError(
            f"{root / file.path} changed while it was being uploaded",
            hint="type the command again; if a program keeps writing to it, add it to .gitignore",
        )
    return content


def _check_script(script: Path) -> None:
    """Refuse a script that is not a file or not Python; suggest similar names."""
    if script.is_file():
        _check_ending(script)
        return
    if script.is_dir():
        raise UsageError(f"{script} is a folder", hint=f"name the script in it: {script}/train.py")
    names = [file.name for file in script.parent.glob("*.py")]
    close = difflib.get_close_matches(script.name, names, n=3)
    hint = f"did you mean {' or '.join(str(script.with_name(name)) for name in close)}?"
    raise UsageError(f"there is no script {script}", hint=hint if close else "")


def _check_ending(script: Path) -> None:
    """Refuse a file that Python would not run, or would misunderstand: a notebook is JSON, which is
    a valid Python expression."""
    if script.suffix in ("", ".py", ".pyw"):
        return
    hint = f"name a Python program: {script.with_suffix('.py')}"
    if script.suffix == ".ipynb":
        hint = f"jupyter nbconvert --to script {script}   # then name {script.with_suffix('.py')}"
    elif script.suffix in (".sh", ".bash", ".csh", ".zsh"):
        with script.open(errors="replace") as file:
            beginning = file.read(100_000)
        started = re.search(r"python[\d.]*\s+(?:-[uBO]+\s+)*([\w./-]+\.py)", beginning)
        hint = f"name the Python program in it: {started[1] if started else 'train.py'}"
        hint += ", with --args and --env for its arguments and variables"
    raise UsageError(f"--script {script}: a script is a Python program, *.py", hint=hint)


def _refuse_home(script: Path) -> None:
    """Refuse to send a home directory, with its keys, when a script lies directly in it."""
    folder = script.parent.resolve()
    if Path(os.path.expanduser("~")).resolve().is_relative_to(folder):  # noqa: PTH111
        raise UsageError(
            f"{script} is in {folder}, which would be uploaded as a whole, with the keys in it",
            hint="move the script into a separate folder, or name a folder with --workdir",
        )


def _path_in(root: Path, script: Path) -> str:
    """The script's path in the bundle of `root`. A script that is a link keeps its own name."""
    place = script.parent.resolve() / script.name
    if not place.is_relative_to(root):
        raise UsageError(
            f"{script} is not inside {root}", hint="choose a --workdir that contains it"
        )
    return place.relative_to(root).as_posix()
