"""A stack's bucket: read the results that runs uploaded, and empty it.

Hosts upload with host/upload/upload.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Manifest
from railhead.documents.uri import bucket_uri

from ..console.output import Reporter
from ..errors import UsageError
from ..inventory.clouds import CLOUDS
from ..inventory.hosts import Inventory
from ..untrusted import unpack
from ..untrusted.manifest import LIMIT, read_manifest
from .base import load
from .storage import NoBucket, Store

OBJECT = 1 << 30  # bytes that are held in memory at once; a wheel has a few MB
WHEELS = "wheels/"  # wheels can be built again; hosts may not write here


@dataclass(frozen=True)
class Bucket:
    """One bucket in any cloud."""

    store: Store

    def manifest(self, run_id: str) -> Manifest | None:
        """The manifest of a run that was uploaded completely; None when it was not. Hostile: it is
        not a manifest, or names a file that no run has."""
        data = self.read(f"runs/{run_id}/manifest.json", LIMIT)
        return None if data is None else read_manifest(data)

    def read(self, key: str, limit: int = OBJECT) -> bytes | None:
        """An object of at most `limit` bytes; None when there is no such object."""
        try:
            return b"".join(_at_most(limit, self.store.read(key), key))
        except KeyError:
            return None

    def get(self, key: str, path: Path, limit: int) -> None:
        """Write an object of at most `limit` bytes into a new file, completely or not at all;
        KeyError when there is no such object."""
        content = self.store.read(key)
        try:
            with unpack.new_file(path) as file:
                file.writelines(_at_most(limit, content, key))
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def empty(self, report: Reporter = lambda _: None, prefix: str = "") -> int:
        """Remove all versions of all objects under a prefix; returns how many were removed.
        `report` gets a line after each thousand."""
        removed = 0
        try:
            while page := next(self.store.pages(prefix), None):
                removed += self.store.remove(page)
                report(f"{self.store.url}: {removed} objects and old versions removed")
        except NoBucket:
            return removed
        return removed


def _at_most(limit: int, pieces: Iterable[bytes], key: str) -> Iterator[bytes]:
    """The pieces of an object; Hostile when they are more than `limit` bytes."""
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            raise unpack.Hostile(f"{key} of more bytes than it was announced with")
        yield piece


def bucket_of(inventory: Inventory) -> Bucket:
    """The bucket of a stack. UsageError: it has none, or its cloud's SDK is not installed."""
    if not inventory.bucket:
        raise UsageError(f"{inventory.name} has no bucket")
    return Bucket(open_store(inventory.bucket, inventory.region))


def open_store(url: str, region: str | None = None) -> Store:
    """The bucket at an address; UsageError if its cloud's SDK is not installed."""
    uri = bucket_uri(url, error=UsageError)
    opener = next(k.bucket for k in CLOUDS.values() if k.bucket and k.scheme == uri.scheme)
    store: Store = load(opener)(uri.bucket, region)
    return store
