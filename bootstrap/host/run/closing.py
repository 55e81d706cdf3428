"""Lists and hashes the files of a run in separate processes, which are killed if they hang.

run.closing outputs|hashes FOLDER   -> JSON lines

A read from a dead network mount never returns, and a Python thread cannot be killed. The machines
must stop anyway, so the supervisor does not read these files itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Entry, Manifest, Outputs, Skipped

from ..base import bounded, programs
from . import manifest

# Seconds. Listing a million files takes about ten; more means that a file system does not answer.
LISTING = 120.0
# Seconds. A slow disk gives 100 MB a second: 180 GB of results. GPUs cost money meanwhile.
HASHING = 1800.0


@dataclass(frozen=True)
class Found:
    """The paths of the files that are hashed, and the skipped files."""

    paths: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class Hashed:
    """The entry of one of these files; None if it was removed meanwhile."""

    path: str
    entry: Entry | None


def outputs(folder: str) -> tuple[Outputs, str]:
    """The files that the run wrote, and the error, or ""."""
    lines, why = run_bounded("outputs", folder, LISTING)
    if lines and not why:
        return decode(Outputs, lines[0]), ""
    return Outputs(()), why and f"work/ was not listed: {why}"


def whole_manifest(folder: str) -> tuple[Manifest, str]:
    """The manifest of a run's folder, and why it is incomplete, or "". A file that was not read in
    time is listed in `skipped`."""
    lines, why = run_bounded("hashes", folder, HASHING)
    listing = decode(Found, lines[0]) if lines else Found()
    read = {hashed.path: hashed.entry for hashed in decode(tuple[Hashed, ...], lines[1:])}
    files = tuple(entry for path in listing.paths if (entry := read.get(path)))
    if not why:
        return Manifest(files, listing.skipped), ""
    late = tuple(Skipped(path, why) for path in listing.paths if path not in read)
    first = f", first {late[0].path}" if late else ""
    why = f"{len(late) if listing.paths else 'all'} results were not read{first}: {why}"
    return Manifest(files, (*listing.skipped, *late)), why


def run_bounded(task: str, folder: str, seconds: float) -> tuple[list[Any], str]:
    """Run this program as a process; returns its complete JSON lines, and the error, or ""."""
    ended = bounded.run(programs.command(programs.CLOSING, task, folder), seconds)
    lines = [json.loads(x) for x in ended.out.splitlines(keepends=True) if x.endswith("\n")]
    return lines, ended.why


def hashes(folder: str) -> Iterator[Found | Hashed]:
    """First all paths and the skipped files, then one for each path."""
    listing = manifest.Listing(folder)
    paths = tuple(path for path, _ in listing.files)
    yield Found(paths, tuple(listing.skipped))
    for path in paths:
        entry = None
        with contextlib.suppress(OSError):
            entry = manifest.entry_of(folder, path)
        yield Hashed(path, entry)


def main(task: str, folder: str) -> None:
    """Print JSON lines on stdout, each as soon as it is known."""
    if task == "outputs":
        print(json.dumps(encode(Outputs(manifest.new_outputs(folder)))))
        return
    for line in hashes(folder):
        print(json.dumps(encode(line)), flush=True)
