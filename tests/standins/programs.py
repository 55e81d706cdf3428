"""What hosts run, in a folder of this machine, with changes of a test."""

from __future__ import annotations

import compileall
import io
import py_compile
import shutil
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from bootstrap.host.base.programs import NAME
from bootstrap.inventory.host_programs import archive

UNPACKING = Lock()  # threads that came first at the same time would each remove the others' folder


def place(folder: Path) -> Path:
    """Put the programs into a folder, unpacked: Python runs a folder as it runs an archive. It is
    a link to those that all tests of this process use."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / NAME
    if not place.is_symlink():
        place.symlink_to(unpacked().name, target_is_directory=True)
    return place


def unpacked() -> TemporaryDirectory[str]:
    """The programs, which the first caller of this process has unpacked."""
    with UNPACKING:
        return _unpacked()


@cache
def _unpacked() -> TemporaryDirectory[str]:
    """The programs and their bytecode: compiling them takes half of the time of a start. Python
    compares the hash of the source, so a module that a test changes is compiled again."""
    folder = TemporaryDirectory(prefix="railhead-programs-")
    with zipfile.ZipFile(io.BytesIO(archive())) as packed:
        packed.extractall(folder.name)
    by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
    assert compileall.compile_dir(folder.name, quiet=1, invalidation_mode=by_hash)
    return folder


def own(folder: Path) -> Path:
    """The programs in a folder, which a test may change: a copy in place of the link."""
    place = folder / NAME
    if place.is_symlink():
        place.unlink()
        shutil.copytree(unpacked().name, place)
    return place


def change(folder: Path, module: str, old: str, new: str) -> None:
    """Replace a text that a module has, such as run/closing.py, in a folder with programs."""
    path = own(folder) / "host" / module
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def append(folder: Path, module: str, text: str) -> None:
    """Add a text to a module: it comes after all else in it."""
    with (own(folder) / "host" / module).open("a") as file:
        file.write(text)


def changed_archive(module: str, old: str, new: str) -> bytes:
    """The archive, with another text in a module."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive())) as packed, zipfile.ZipFile(made, "w") as target:
        for name in packed.namelist():
            if name.endswith(".pyc"):
                continue
            text = packed.read(name).decode()
            if name == f"host/{module}":
                assert old in text
                text = text.replace(old, new)
            target.writestr(name, text)
    return made.getvalue()


def command(folder: Path, program: str, *args: str) -> list[str]:
    """The command that starts a program in a folder as our code does."""
    return [sys.executable, "-I", "-S", str(folder / NAME), program, *args]
