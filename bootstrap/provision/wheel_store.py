"""Horovod wheels: this computer's cache, and the stack's bucket, which shares them with all users.

A wheel is code of the host that built it. So the name of its folder begins with who built it
(`Cluster.wheel_origin`): a cluster without that host never gets it, and hosts on this computer only
get what was built here. This computer keeps and sends the bytes; it opens no wheel of a host.

`wheels/<key>/wheel.json` in a bucket names the wheel for one kind of host, with its sha256, which
is also in the object name of the wheel. It is written last, so nobody finds an incomplete wheel,
and two concurrent uploads leave a valid one.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from railhead.documents.codec import decode, encode, key
from railhead.documents.lazy import dataclass

from ..clouds import bucket
from ..clouds.bucket import WHEELS, Bucket
from ..errors import RailheadError
from ..facts.host import HostFacts
from ..host.base import locks
from ..host.buckets.repeats import outlasting
from ..inventory import caches
from ..inventory.files import atomic_write
from ..inventory.hosts import Inventory
from ..plan.cluster import HERE, CachedWheel, SurveyedCluster
from ..plan.runtimes import Environment
from ..untrusted.decode import json_object
from ..untrusted.unpack import Hostile

NAME = re.compile(r"horovod-[A-Za-z0-9_.+-]+\.whl")
ENTRY = 4096  # bytes of a wheel.json
BRIEF = 5.0  # seconds of an outage that a search for a wheel outlasts: a host can build one


@dataclass(frozen=True)
class StoredWheel:
    """wheel.json: the name, the size and the sha256 of a wheel in the bucket."""

    name: str = key(pattern=NAME.pattern)
    bytes: int = key()
    sha256: str = key(pattern="[0-9a-f]{64}")
    schema: int = 1


class CorruptWheel(RailheadError):
    """The wheel in the bucket is damaged or incomplete."""


def wheel_folder(cluster: SurveyedCluster) -> Path:
    """The folder in this computer's cache for the wheel that this cluster builds."""
    return _folder_of(cluster, cluster.builder)


def _folder_of(cluster: SurveyedCluster, host: str) -> Path:
    """The folder for this cluster's wheel, if this host has built it."""
    origin = cluster.wheel_origin(host)
    return _folder(origin, cluster.environment, cluster.facts[cluster.builder])


def folder_of_built_here(environment: Environment, facts: HostFacts) -> Path:
    """The folder in the cache for the wheel that this computer builds for such hosts."""
    return _folder(HERE, environment, facts)


def _folder(origin: str, environment: Environment, builder: HostFacts) -> Path:
    return caches.cache("wheels") / f"{origin}-{environment.wheel_key(builder)}"


def find_wheel(cluster: SurveyedCluster) -> Path | None:
    """The wheel for these hosts in this computer's cache: one that a host of them built, also for
    fewer hosts, otherwise one that this computer built; None if there is none."""
    here = folder_of_built_here(cluster.environment, cluster.facts[cluster.builder])
    folders = [*(_folder_of(cluster, name) for name in (cluster.builder, *cluster.facts)), here]
    return next((wheel for folder in folders if (wheel := local_wheel(folder))), None)


def keep_wheel(wheel: Path, folder: Path) -> None:
    """Copy a wheel into a folder of this computer's cache."""
    atomic_write(folder / wheel.name, wheel.read_bytes())


@outlasting(BRIEF)
def find_cached_wheel(inventory: Inventory, folder: Path) -> CachedWheel | None:
    """The state of the wheel for `folder` in the stack's bucket; None without a bucket, and for
    hosts on this computer. Downloads the wheel if the folder has none. Raises no error: without
    this wheel, a host builds one."""
    if not inventory.bucket or inventory.kind.this_machine:
        return None
    url = f"{inventory.bucket}/{WHEELS}{folder.name}"
    try:
        stack_bucket = bucket.bucket_of(inventory)
        entry = _entry(stack_bucket, folder.name)
        return CachedWheel(
            url, entry is not None, entry is not None and _download(stack_bucket, entry, folder)
        )
    except CorruptWheel as error:
        return CachedWheel(url, False, note=f"the wheel in {url} is not used: {error.message}")
    except (RailheadError, OSError) as error:
        reason = str(error).splitlines()[0]
        return CachedWheel(
            url, None, note=f"wheels are neither downloaded from {url} nor stored there: {reason}"
        )


def store_wheel(inventory: Inventory, wheel: Path, key: str) -> None:
    """Upload a wheel to the stack's bucket, under `key`: the name of the cluster's folder.
    RailheadError: the upload failed."""
    store, data = bucket.bucket_of(inventory).store, wheel.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    entry = StoredWheel(wheel.name, len(data), digest)
    store.write(f"{WHEELS}{key}/{digest}/{wheel.name}", data)
    store.write(f"{WHEELS}{key}/wheel.json", json.dumps(encode(entry)).encode())


def local_wheel(folder: Path) -> Path | None:
    """The wheel in a folder of this computer's cache; None if there is none."""
    return min(folder.glob("horovod-*.whl"), default=None)


def _entry(stack_bucket: Bucket, key: str) -> StoredWheel | None:
    """The wheel.json of a key; None if there is none."""
    try:
        data = stack_bucket.read(f"{WHEELS}{key}/wheel.json", ENTRY)
        if data is None:
            return None
        return decode(StoredWheel, json_object(data, "a wheel.json"), error=Hostile)
    except Hostile:
        raise CorruptWheel("its wheel.json names no wheel") from None


def _download(stack_bucket: Bucket, entry: StoredWheel, folder: Path) -> bool:
    """Download a wheel if the folder has none; returns whether it was downloaded."""
    with locks.wait_lock(caches.cache("wheels") / f"{folder.name}.lock"):
        if local_wheel(folder):
            return False
        name, digest = entry.name, entry.sha256
        data = stack_bucket.read(f"{WHEELS}{folder.name}/{digest}/{name}")
        if data is None:
            raise CorruptWheel(f"{name} no longer exists")
        if hashlib.sha256(data).hexdigest() != digest:
            raise CorruptWheel(f"{name} does not have the recorded sha256")
        atomic_write(folder / name, data)
        return True
