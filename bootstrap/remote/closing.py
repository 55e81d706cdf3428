"""Lists and hashes what a run left, in processes of their own, so that one that hangs is killed.

python closing.py outputs|hashes FOLDER   -> JSON lines

A read from a dead network mount never returns, and a thread of Python cannot be ended. The machines
must stop all the same, so the supervisor waits for no file. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

if TYPE_CHECKING:
    from bootstrap.remote import bounded, manifest
else:  # they lie beside this file
    import bounded
    import manifest

# Seconds. Finding a million files takes about ten; more means that a file system does not answer.
LISTING = 120.0
# Seconds. A slow disk gives 100 MB a second: 180 GB of results. GPUs cost money meanwhile.
HASHING = 1800.0
BEFORE = "before.json"  # the files of work/ before the run

Seen = dict[str, tuple[int, int]]


def snapshot(folder: str) -> Seen:
    """Size and time of every regular file in work/, to tell later what the run wrote."""
    found = {}
    work = os.path.join(folder, "work")
    for above, _, names in os.walk(work):
        for file in (os.path.join(above, name) for name in names):
            if "__pycache__" not in file:
                with contextlib.suppress(OSError):
                    status = os.lstat(file)
                    if stat.S_ISREG(status.st_mode):
                        found[os.path.relpath(file, work)] = status.st_size, status.st_mtime_ns
    return found


def written(folder: str, before: Seen, patterns: list[str]) -> list[tuple[str, int]]:
    """The files in work/ that are new or changed and match, each with its bytes."""
    after = snapshot(folder)
    new = [p for p in after if after[p] != tuple(before.get(p, ()))]
    return [(p, after[p][0]) for p in sorted(new) if any(matches(p, x) for x in patterns)]


def matches(file: str, pattern: str) -> bool:
    """`**` and `*` reach across folders, as people expect of `--outputs '*.h5'`."""
    return pattern == "**" or fnmatch.fnmatch(file, pattern)


def outputs(folder: str) -> tuple[list[Any], str]:
    """What the run wrote, [path in work/, bytes] each; and why that is not known, or ""."""
    lines, why = answers("outputs", folder, LISTING)
    return (lines[0], "") if lines and not why else ([], why and f"work/ was not listed: {why}")


def whole_manifest(folder: str) -> tuple[dict[str, Any], str]:
    """The manifest of a run's folder; and why it is not complete, or "".

    A file that was not read in time stands under `skipped`.
    """
    lines, why = answers("hashes", folder, HASHING)
    paths = lines[0] if lines else []
    read = {line["path"]: line for line in lines[1:]}
    files = [read[path] for path in paths if "sha256" in read.get(path, {})]
    skipped = [{"path": path, "kind": why} for path in paths if path not in read] if why else []
    if why:
        first = f", first {skipped[0]['path']}" if skipped else ""
        why = f"{len(skipped) if paths else 'all'} results were not read{first}: {why}"
    return {"schema": 1, "files": files, "skipped": skipped}, why


def answers(task: str, folder: str, seconds: float) -> tuple[list[Any], str]:
    """What a process of ours answered line by line; and why it did not come to its end, or ""."""
    argv = [sys.executable, "-I", "-S", os.path.abspath(__file__), task, folder]
    try:
        ended = bounded.run(argv, seconds)
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
    """The paths of the results, then for each its entry; one that cannot be read has no sha256."""
    paths = list(manifest.paths(folder))
    yield paths
    for path in paths:
        entry: dict[str, Any] = {"path": path}
        with contextlib.suppress(OSError):  # it has gone meanwhile
            file = os.path.join(folder, path)
            if stat.S_ISREG(os.lstat(file).st_mode):
                size, digest = manifest.weighed(file)
                entry |= {"bytes": size, "sha256": digest}
        yield entry


def load(folder: str, name: str) -> Any:
    """A JSON document of the run's folder."""
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def main(task: str, folder: str) -> None:
    """Answer on stdout, a line as soon as it is known."""
    if task == "outputs":
        patterns = load(folder, "run.json")["outputs"]
        print(json.dumps(written(folder, load(folder, BEFORE), patterns)))
        return
    for line in hashes(folder):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
