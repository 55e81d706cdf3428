"""What hosts run, in a folder of this machine, with changes of a test."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

from bootstrap.remote.programs import NAME
from bootstrap.ssh.bundle import archive


def place(folder: Path) -> Path:
    """Put the programs into a folder, unpacked: Python runs a folder as it runs an archive."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(archive())) as packed:
        packed.extractall(folder / NAME)
    return folder / NAME


def change(folder: Path, module: str, old: str, new: str) -> None:
    """Replace a text that a module has, such as run/closing.py, in a folder with programs."""
    path = folder / NAME / "remote" / module
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def append(folder: Path, module: str, text: str) -> None:
    """Add a text to a module: it comes after all else in it."""
    with (folder / NAME / "remote" / module).open("a") as file:
        file.write(text)


def changed_archive(module: str, old: str, new: str) -> bytes:
    """The archive, with another text in a module."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive())) as packed, zipfile.ZipFile(made, "w") as target:
        for name in packed.namelist():
            text = packed.read(name).decode()
            if name == f"remote/{module}":
                assert old in text
                text = text.replace(old, new)
            target.writestr(name, text)
    return made.getvalue()


def command(folder: Path, program: str, *args: str) -> list[str]:
    """The command that starts a program in a folder as our code does."""
    return [sys.executable, "-I", "-S", str(folder / NAME), program, *args]
