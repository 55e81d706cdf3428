"""The data of a run on its host: the variables RAILHEAD_DATA_<NAME>, and what they name.

Our own training reads buckets by itself. For a script, the ranks of a host download once, into
~/.railhead/data; a stream is fed into a folder in memory, for each rank.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from typing import Any

VARIABLE = "RAILHEAD_DATA_"


def prepare(run: Mapping[str, Any], folder: str, host: int) -> dict[str, str]:
    """The variables of all data of a rank on host number `host`; a script's data is there then.

    `folder` is the run's folder.
    """
    found = {}
    for item in run["data"]:
        name = VARIABLE + item["name"].upper()
        found[name] = place_of(item, run, folder, host)
        if item["mode"] and run["program"]["kind"] == "training":
            found[f"{name}_MODE"] = item["mode"]
    return found


def place_of(item: Mapping[str, Any], run: Mapping[str, Any], folder: str, host: int) -> str:
    """The folder of one input, or the URI that our own training reads."""
    if item["paths"] is None:
        return str(item["uri"])
    path: str = os.path.expanduser(item["paths"][host])
    if item["distribution"] == "shard" and item["uri"].startswith("host:"):
        return share_of(path, os.path.join(folder, "data", item["name"]), host, len(run["hosts"]))
    return path


def share_of(path: str, share: str, index: int, count: int) -> str:
    """A folder of links to every `count`-th file of a folder, from number `index` on."""
    with alone(f"{share}.lock"):
        if os.path.isdir(share):
            return share
        part = f"{share}.part"
        for number, name in enumerate(sorted(files_in(path))):
            if number % count == index:
                link = os.path.join(part, name)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.symlink(os.path.join(path, name), link)
        os.makedirs(part, exist_ok=True)
        os.rename(part, share)
    return share


def files_in(path: str) -> Iterator[str]:
    """The paths of all files below a folder, relative to it."""
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), path)


@contextlib.contextmanager
def alone(lock: str) -> Iterator[None]:
    """Lock a file; other ranks of this host wait."""
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
