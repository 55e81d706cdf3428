"""Lists and hashes the files of a run in separate processes, which are killed if they hang.

run.closing outputs|hashes FOLDER   -> JSON lines

A read from a dead network mount never returns, and a Python thread cannot be killed. The machines
must stop anyway, so the supervisor reads no such file itself. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from .. import programs
from . import bounded, manifest

# Seconds. Listing a million files takes about ten; more means that a file system does not answer.
LISTING = 120.0
# Seconds. A slow disk gives 100 MB a second: 180 GB of results. GPUs cost money meanwhile.
HASHING = 1800.0


def outputs(folder: str) -> tuple[list[Any], str]:
    """The files that the run wrote, [path in work/, bytes] each; and the error, or ""."""
    lines, why = run_bounded("outputs", folder, LISTING)
    return (lines[0], "") if lines and not why else ([], why and f"work/ was not listed: {why}")


def whole_manifest(folder: str) -> tuple[dict[str, Any], str]:
    """The manifest of a run's folder; and why it is incomplete, or "".

    A file that was not read in time is listed in `skipped`.
    """
    lines, why = run_bounded("hashes", folder, HASHING)
    paths, skipped = (lines[0]["paths"], lines[0]["skipped"]) if lines else ([], [])
    read = {line["path"]: line for line in lines[1:]}
    files = [read[path] for path in paths if "sha256" in read.get(path, {})]
    if why:
        late = [{"path": path, "kind": why} for path in paths if path not in read]
        skipped = [*skipped, *late]
        first = f", first {late[0]['path']}" if late else ""
        why = f"{len(late) if paths else 'all'} results were not read{first}: {why}"
    return {"schema": 1, "files": files, "skipped": skipped}, why


def run_bounded(task: str, folder: str, seconds: float) -> tuple[list[Any], str]:
    """Run this program as a process; its complete JSON lines, and the error if it failed, or ""."""
    try:
        ended = bounded.run(programs.command("run.closing", task, folder), seconds)
    except OSError as error:
        return [], str(error)
    lines = [json.loads(x) for x in ended.out.splitlines(keepends=True) if x.endswith("\n")]
    if ended.code is None:
        return lines, f"no end within {seconds:g} s"
    if ended.code:
        last = (ended.err.strip().splitlines() or [""])[-1]
        return lines, f"exit code {ended.code}: {last}"
    return lines, ""


def hashes(folder: str) -> Iterator[Any]:
    """First all paths and the skipped files, then one entry per path; an unreadable file has no
    sha256."""
    found = manifest.Listing(folder)
    paths = [path for path, _ in found.files]
    yield {"paths": paths, "skipped": found.skipped}
    for path in paths:
        entry: dict[str, Any] = {"path": path}
        with contextlib.suppress(OSError):  # removed in the meantime
            size, digest = manifest.size_and_sha256(os.path.join(folder, path))
            entry |= {"bytes": size, "sha256": digest}
        yield entry


def load(folder: str, name: str) -> Any:
    """A JSON document of the run's folder."""
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def main(task: str, folder: str) -> None:
    """Print JSON lines on stdout, each as soon as it is known."""
    if task == "outputs":
        patterns = load(folder, "run.json")["outputs"]
        before = load(folder, manifest.BEFORE)
        print(json.dumps(manifest.written(folder, before, patterns)))
        return
    for line in hashes(folder):
        print(json.dumps(line), flush=True)
