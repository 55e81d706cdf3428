"""A host's list of the files of a run: every name, size and sha256 is checked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.runs.local_names import local_name
from railhead.documents.runs.manifest import FILES, Entry, Manifest, Skipped, home_name

from ..console.text import clean, count
from ..errors import Command, Hint, RailheadError
from ..host.base.regular_files import size_and_sha256
from ..host.run.manifest import TAKEN
from . import unpack
from .decode import parsed

LIMIT = 64_000_000  # bytes of a manifest; enough for FILES entries with long names
# These are files in the results folder; a folder of that name would make every later fetch fail.
RECORDS = {"result.json", "run.json", "metrics.jsonl", "evaluation.json", "curves.svg", *TAKEN}
SHOWN = 5  # the most names in one line


def read_manifest(text: str | bytes) -> Manifest:
    """Parse a manifest from JSON; Hostile if it is not valid."""
    manifest = parsed(Manifest, text, "a manifest")
    names = {entry.path for entry in manifest.files}
    folders = {name[:i] for name in names for i, char in enumerate(name) if char == "/"}
    if len(names) < len(manifest.files) or names & folders or len(manifest.files) > FILES:
        raise unpack.Hostile("a manifest with a name twice, or with too many")
    homes([*names])
    return manifest


def skipped(value: Any) -> tuple[Skipped, ...]:
    """Parse a host's list of entries that it does not send; Hostile if it is not valid."""
    description = "a list of skipped files that is not valid"
    return decode(tuple[Skipped, ...], value, what=description, error=unpack.Hostile)


def is_same(entry: Entry, path: Path) -> bool:
    """Whether a local file has the sha256 of an entry."""
    try:
        return size_and_sha256(os.path.realpath(path))[1] == entry.sha256
    except OSError:
        return False


def skipped_line(left_out: Sequence[Skipped]) -> list[str]:
    """One line that names the skipped entries; empty if there are none."""
    if not left_out:
        return []
    names = ", ".join(f"{clean(s.path)[:120]} ({clean(s.kind)[:80]})" for s in left_out[:SHOWN])
    more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
    return [f"not fetched: {names}{more}"]


def renamed(names: Iterable[str]) -> list[tuple[str, str]]:
    """(name in the results, name here) of each file that may not have its name here, sorted."""
    return [(name, here) for name in sorted(names) if (here := local_name(name)) != name]


def renamed_line(changed: Sequence[tuple[str, str]], listed: Path) -> list[str]:
    """One line about renamed files; empty if there are none."""
    if not changed:
        return []
    name, here = changed[0]
    return [
        f"renamed, since a tool may run files of such names by itself: {clean(name)[:120]} is now"
        f" {clean(here)[:120]}; all {len(changed)} are in {listed}"
    ]


def refuse_changed(wrong: list[str]) -> None:
    """RailheadError if files differ from the manifest; `wrong` has their names."""
    if wrong:
        raise RailheadError(
            f"{count(len(wrong), 'file')} came with other content than the chief has: "
            + ", ".join(wrong[:SHOWN]),
            hint=Hint(Command("fetch"), "   # once more; the machines keep them"),
        )


def homes(paths: Sequence[str]) -> Mapping[str, str]:
    """{path in the run's folder: name in the results}, for `unpack.place`; Hostile if two files
    have the same name."""
    names = {path: home_name(path) for path in paths}
    if len({local_name(name) for name in names.values()}) < len(names):
        raise unpack.Hostile("two files for one name")
    if any("/" in name and name.partition("/")[0] in RECORDS for name in names.values()):
        raise unpack.Hostile("a folder with the name of a file of the run")
    return names
