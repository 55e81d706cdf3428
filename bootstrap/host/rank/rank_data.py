"""The data of a run on its host, and the variables RAILHEAD_DATA_<NAME> with its paths.

The built-in training reads buckets by itself. For a script, each host downloads once, into
~/.railhead/data, and a stream is fed into a folder in memory, for each rank. `python -m
training.data`, in `reader/` of the run's folder, does both.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from railhead.documents.lazy import dataclass
from railhead.documents.names import is_manifest
from railhead.documents.runs.run import RunData, RunDocument, Script

from ..base import children, locks

VARIABLE = "RAILHEAD_DATA_"
MEMORY = "/dev/shm"  # tmpfs; without it, streams are on the disk
RECORD = "@railhead "


@dataclass(frozen=True)
class RankPlace:
    """A rank in its run: the run's folder, and (number, count) of the rank among all ranks that
    share data, of the rank among those of its host, and of its host among the hosts."""

    folder: str
    rank: tuple[int, int]
    local_rank: tuple[int, int]
    host: tuple[int, int]


def prepare(run: RunDocument, place: RankPlace) -> dict[str, str]:
    """The variables of all data for a rank. When it returns, a script's data has been downloaded.
    SystemExit: a download failed; the cause has been printed."""
    variables = {}
    script = isinstance(run.program, Script)
    for item in run.data:
        name = VARIABLE + item.name.upper()
        variables[name] = path_of(item, place) if script else source_of(item, place)
        if item.mode and not script:
            variables[f"{name}_MODE"] = item.mode
    return variables


def source_of(item: RunData, place: RankPlace) -> str:
    """The path on this host, or the URI of a bucket."""
    return os.path.expanduser(item.paths[place.host[0]]) if item.paths else item.uri


def path_of(item: RunData, place: RankPlace) -> str:
    """The folder in which a script finds an input."""
    source, shard = source_of(item, place), item.distribution == "shard"
    # Of sharded local data, this host has received only its own share.
    divided = shard and (item.paths is None or item.uri.startswith("host:"))
    if item.mode == "stream":
        part = place.rank if divided else place.local_rank if shard else (0, 1)
        return streamed(source, part, place)
    part = place.host if divided else (0, 1)
    if item.paths is None:
        return downloaded(source, part, place)
    if divided:
        return share_of(source, os.path.join(place.folder, "data", item.name), *part)
    return source


def downloaded(uri: str, part: tuple[int, int], place: RankPlace) -> str:
    """Download files of a bucket, unless the cache has them; returns their folder."""
    argv = [sys.executable, "-m", "training.data", "download", uri]
    argv += ["--part", "{}/{}".format(*part)]
    reader = os.path.join(place.folder, "reader")
    folder = ""
    with subprocess.Popen(argv, cwd=reader, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith(RECORD):
                sys.stdout.write(line)
                sys.stdout.flush()
            else:
                folder = line.rstrip("\n")
    if process.returncode:
        raise SystemExit(process.returncode)
    return folder


def streamed(source: str, part: tuple[int, int], place: RankPlace) -> str:
    """Start to feed a stream into a new folder, until this rank ends."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="railhead-", dir=memory)
    links = os.path.join(place.folder, "streams")  # end_processes.py removes the links' targets
    os.makedirs(links, exist_ok=True)
    os.symlink(folder, os.path.join(links, os.path.basename(folder)))
    argv = [sys.executable, "-m", "training.data", "stream", source, folder]
    argv += ["--part", "{}/{}".format(*part)]
    feeder = subprocess.Popen(
        argv,
        cwd=os.path.join(place.folder, "reader"),
        preexec_fn=lambda: children.end_with_parent(signal.SIGTERM),
    )
    atexit.register(stop, feeder)
    return folder


def stop(feeder: subprocess.Popen[bytes]) -> None:
    """End a feeder."""
    feeder.terminate()
    feeder.wait()


def share_of(path: str, share: str, index: int, count: int) -> str:
    """A folder of links to every `count`-th file of a folder, from number `index` on."""
    os.makedirs(os.path.dirname(share), exist_ok=True)
    with locks.wait_lock(f"{share}.lock"):  # other ranks of this host wait
        if os.path.isdir(share):
            return share
        names = part_of(sorted(files_in(path)), index, count)
        if all(map(is_manifest, names)):
            raise SystemExit(
                f"railhead: {path} has no file for host {index + 1} of {count}: shard gives file i "
                f"to host i modulo {count}. Give each host all of it: without ,shard"
            )
        partial = f"{share}.part"
        os.makedirs(partial, exist_ok=True)
        for name in names:
            link = os.path.join(partial, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.symlink(os.path.join(path, name), link)
        os.rename(partial, share)
    return share


def part_of(names: list[str], index: int, count: int) -> list[str]:
    """The names of one part; each part has the manifests."""
    files = [name for name in names if not is_manifest(name)][index::count]
    return files + [name for name in names if is_manifest(name)]


def files_in(path: str) -> Iterator[str]:
    """The paths of all files below a folder, relative to it."""
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), path)
