"""A state that Pulumi's file backend wrote only in part, and its newest whole copy.

On a full disk, pulumi 3.259.0 truncates STACK.json and sometimes STACK.json.bak too; when it is
killed, it truncates STACK.json.attrs. Then no command of Pulumi can read the stack.
"""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass

from ..errors import Command, Hint
from . import pulumi_cli

FULL = 1 << 20  # bytes: a disk with fewer free ones is full
COPY = "isCopy"
ENDINGS = (".json", ".json.gz")
ZSTD = ".json.zst"  # of PULUMI_DIY_BACKEND_ZSTD, which Python reads from 3.14 on


@dataclass(frozen=True)
class Latest:
    """What is read of a checkpoint: the state as `pulumi stack export` prints it."""

    latest: Any = None


@dataclass(frozen=True)
class File:
    """A file of the backend with a stack's state."""

    checkpoint: Latest = Latest()


@dataclass(frozen=True)
class Damage:
    """The file of a stack that is not whole, and its newest whole copy; None if there is none,
    or if the backend is not a folder."""

    stack: str
    path: Path | None = None
    copy: Path | None = None

    @property
    def message(self) -> str:
        """What is damaged, and why."""
        if self.path is None:
            return f"Pulumi's state of stack {self.stack} cannot be read; machines may run"
        full = shutil.disk_usage(self.path.parent).free < FULL
        why = "the disk is full" if full else "the disk was full, or Pulumi was killed"
        damage = f"{self.path} is not whole ({self.path.stat().st_size} bytes): {why}"
        copy = f"; the newest whole copy is {self.copy}" if self.copy else "; no copy is whole"
        return damage + ("" if self.path.suffix == ".attrs" else copy)

    @property
    def hint(self) -> Hint | Command:
        """How Pulumi can read the state again; without a copy, the command that finds the
        machines."""
        status = Command("status", stack=self.stack)
        if self.path is not None and self.path.suffix == ".attrs":
            return Hint(
                f"rm {shlex.quote(str(self.path))} && ", status, "   # Pulumi makes it anew"
            )
        if self.path is None or self.copy is None:
            return Command("leaks")
        copy = f"cp {shlex.quote(str(self.copy))} {shlex.quote(str(self.path))}"
        attributes = shlex.quote(f"{self.path}.attrs")
        return Hint(f"{copy} && rm -f {attributes} && ", status, "   # with room on the disk")

    @property
    def is_lost(self) -> bool:
        """Whether no file has the state any more."""
        return self.path is not None and self.path.suffix != ".attrs" and self.copy is None

    def exported(self) -> Any:
        """The copy, as `pulumi stack export` prints a state, marked as a copy."""
        assert self.copy
        return {"deployment": _content(self.copy), COPY: True}


def find(stack: str) -> Damage:
    """The damaged file of a stack that Pulumi cannot read."""
    folder = _folder()
    if folder is None:
        return Damage(stack)
    for path in _states(folder, stack):
        if _content(path) is None:
            return Damage(stack, path, next(_copies(folder, path), None))
        attributes = path.with_name(f"{path.name}.attrs")
        if attributes.exists() and not _is_json(attributes):
            return Damage(stack, attributes)
    return Damage(stack)


def stacks() -> list[str]:
    """The names of the stacks in the backend's folder: Pulumi lists none if one state is
    damaged."""
    folder = _folder()
    paths = sorted(folder.glob("stacks/*/*")) if folder else []
    return [
        path.name.removesuffix(end)
        for path in paths
        for end in (*ENDINGS, ZSTD)
        if path.name.endswith(end)
    ]


def _folder() -> Path | None:
    """The folder `.pulumi` of a backend that is a folder."""
    scheme, _, path = (pulumi_cli.backend() or "").partition("://")
    folder = Path(path.partition("?")[0]).expanduser() / ".pulumi"
    return folder if scheme == "file" and folder.is_dir() else None


def _states(folder: Path, stack: str) -> Iterator[Path]:
    return (path for end in ENDINGS for path in sorted(folder.glob(f"stacks/*/{stack}{end}")))


def _copies(folder: Path, path: Path) -> Iterator[Path]:
    """The whole copies of a state, the newest first: the one before it, then Pulumi's backups."""
    project, stack = path.parent.name, path.name.partition(".json")[0]
    backups = folder.glob(f"backups/{project}/{stack}/{stack}.*.json*")
    older = sorted(backups, key=lambda backup: backup.name, reverse=True)  # by nanoseconds
    for copy in (path.with_name(f"{path.name}.bak"), *older):
        if copy.suffix != ".attrs" and copy.is_file() and _content(copy) is not None:
            yield copy


def _content(path: Path) -> Any:
    """The state in a file; None if it is not whole."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return decode(File, json.loads(data)).checkpoint.latest
    except (OSError, EOFError, ValueError):
        return None


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True
