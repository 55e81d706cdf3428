"""The bucket of a stack, as seen from here: results that were shipped, and emptying it.

The hosts' side of it is remote/ship.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.cloud.store import NoBucket, Store
from bootstrap.errors import UsageError
from bootstrap.inventory import Inventory

WHEELS = "wheels/"  # what stands below it can be made again, and only persons may write there


@dataclass(frozen=True)
class Bucket:
    """One bucket, of any cloud."""

    store: Store

    def manifest(self, run_id: str) -> list[dict[str, Any]] | None:
        """The files of a run that was shipped whole; None when it was not."""
        data = self.read(f"runs/{run_id}/manifest.json")
        return None if data is None else list(json.loads(data)["files"])

    def read(self, key: str) -> bytes | None:
        """A small object; None when there is none of this name."""
        try:
            return b"".join(self.store.read(key))
        except KeyError:
            return None

    def get(self, key: str, path: Path) -> None:
        """Write an object into a file, which is there only when it came to its end; KeyError when
        there is none of this name."""
        sent = self.store.read(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            file.writelines(sent)
        part.replace(path)

    def empty(self, tell: Callable[[str], None] = lambda _: None, below: str = "") -> int:
        """Remove all objects whose names begin so, with all their versions; how many there were.

        Args:
            tell: gets a line after each thousand.
        """
        removed = 0
        try:
            while page := next(self.store.pages(below), None):
                removed += self.store.remove(page)
                tell(f"{self.store.url}: {removed} objects and old versions removed")
        except NoBucket:
            return removed
        return removed


def of(inventory: Inventory) -> Bucket:
    """The bucket of a stack.

    Raises:
        UsageError: it has none, or its cloud's SDK is not installed.
    """
    url = inventory.bucket or ""
    kind, _, name = url.partition("://")
    if kind == "s3":
        from bootstrap.cloud import boto, s3

        return Bucket(s3.S3(boto.asker(inventory.region), name))
    if kind == "gs":
        from bootstrap.cloud import gcs, rest

        return Bucket(gcs.Gcs(rest.asker(), name))
    raise UsageError(f"{inventory.name} has no bucket")
