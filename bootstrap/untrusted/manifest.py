"""A host's list of the files of a run: every name, size and sha256 is checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.console.text import clean, count
from bootstrap.errors import RailheadError
from bootstrap.hint import Command, Hint
from bootstrap.remote.run.manifest import FILES, TAKEN, home_name
from bootstrap.untrusted import unpack
from bootstrap.untrusted.decode import decoded
from railhead.documents.agent import Skipped
from railhead.documents.codec import decode

LIMIT = 64_000_000  # bytes of a manifest; enough for FILES entries with long names
SHA256 = re.compile(r"[0-9a-f]{64}")
# In the folder of the results these are files; a folder would be in the way of each later fetch.
RECORDS = {"result.json", "run.json", "metrics.jsonl", "evaluation.json", "curves.svg", *TAKEN}
SHOWN = 5  # the most names in one line


@dataclass(frozen=True)
class Entry:
    """One file of a run's folder: its relative path, its size in bytes and its sha256."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        unpack.checked(self.path)
        if type(self.bytes) is not int or self.bytes < 0:
            raise unpack.Hostile(f"no number of bytes for {self.path}")
        if not isinstance(self.sha256, str) or not SHA256.fullmatch(self.sha256):
            raise unpack.Hostile(f"no sha256 for {self.path}")

    @property
    def home(self) -> str:
        """Its name in the results on this machine."""
        return home_name(self.path)

    def is_in(self, path: Path) -> bool:
        """Whether a local file has this sha256."""
        try:
            with path.open("rb") as file:
                digest = hashlib.sha256()
                while data := file.read(1 << 20):
                    digest.update(data)
                return digest.hexdigest() == self.sha256
        except OSError:
            return False


@dataclass(frozen=True)
class Manifest:
    """The files of a run that has ended, and the skipped entries of its folder."""

    files: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]

    @staticmethod
    def read(text: str | bytes) -> Manifest:
        """Parse a manifest from JSON; Hostile if it is not valid."""
        try:
            document = decoded(text)
            files = tuple(Entry(f["path"], f["bytes"], f["sha256"]) for f in document["files"])
            left_out = skipped(document.get("skipped", []))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise unpack.Hostile("a manifest that is not valid") from None
        names = {entry.path for entry in files}
        folders = {name[:i] for name in names for i, char in enumerate(name) if char == "/"}
        if len(names) < len(files) or names & folders or len(files) > FILES:
            raise unpack.Hostile("a manifest with a name twice, or with too many")
        homes([*names])
        return Manifest(files, left_out)


def skipped(value: Any) -> tuple[Skipped, ...]:
    """Parse a host's list of entries that it does not send; Hostile if it is not valid."""
    what = "a list of skipped files that is not valid"
    return decode(tuple[Skipped, ...], value, what=what, error=unpack.Hostile)


def skipped_line(left_out: Sequence[Skipped]) -> list[str]:
    """One line that names the skipped entries; empty if there are none."""
    if not left_out:
        return []
    names = ", ".join(f"{clean(s.path)[:120]} ({clean(s.kind)[:80]})" for s in left_out[:SHOWN])
    more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
    return [f"not brought: {names}{more}"]


def refuse_changed(wrong: list[str]) -> None:
    """RailheadError if files differ from the manifest; `wrong` has their names."""
    if wrong:
        raise RailheadError(
            f"{count(len(wrong), 'file')} came with another content than the chief has: "
            + ", ".join(wrong[:SHOWN]),
            hint=Hint(Command("fetch"), "   # once more; the machines keep them"),
        )


def homes(paths: Sequence[str]) -> Mapping[str, str]:
    """The local name of each file of a run's folder; Hostile if two files have the same."""
    found = {path: home_name(path) for path in paths}
    if len({*found.values()}) < len(found):
        raise unpack.Hostile("two files for one name")
    if any("/" in name and name.partition("/")[0] in RECORDS for name in found.values()):
        raise unpack.Hostile("a folder with the name of a file of the run")
    return found
