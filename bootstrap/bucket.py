"""The bucket of a stack, as seen from here: results that were shipped, and emptying it.

The hosts' side of it is remote/ship.py. A bucket in Google Cloud is written by hosts, and not yet
read from here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.cloud import Refused
from bootstrap.cloud.boto import Ask, asker
from bootstrap.errors import UsageError
from bootstrap.inventory import Inventory

PIECE = 1 << 20  # bytes


@dataclass(frozen=True)
class Bucket:
    """One S3 bucket."""

    ask: Ask
    name: str

    def manifest(self, run_id: str) -> list[dict[str, Any]] | None:
        """The files of a run that was shipped whole; None when it was not."""
        data = self.read(f"runs/{run_id}/manifest.json")
        return None if data is None else list(json.loads(data)["files"])

    def read(self, key: str) -> bytes | None:
        """A small object; None when there is none of this name."""
        try:
            read: bytes = self.ask("s3", "get_object", Bucket=self.name, Key=key)["Body"].read()
        except Refused as refused:
            if refused.word in ("NoSuchKey", "404"):
                return None
            raise
        return read

    def get(self, key: str, path: Path) -> None:
        """Write an object into a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body = self.ask("s3", "get_object", Bucket=self.name, Key=key)["Body"]
        with path.open("wb") as file:
            while data := body.read(PIECE):
                file.write(data)

    def empty(self) -> int:
        """Remove all objects with all their versions; how many there were."""
        count = 0
        while found := self._versions():
            keys = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in found]
            delete = {"Objects": keys, "Quiet": True}
            self.ask("s3", "delete_objects", Bucket=self.name, Delete=delete)
            count += len(keys)
        return count

    def _versions(self) -> list[dict[str, Any]]:
        page = self.ask("s3", "list_object_versions", Bucket=self.name)
        return [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]


def of(inventory: Inventory) -> Bucket:
    """The bucket of a stack.

    Raises:
        UsageError: it has none, or none that can be read from here.
    """
    url = inventory.bucket or ""
    if not url:
        raise UsageError(f"{inventory.name} has no bucket")
    if not url.startswith("s3://"):
        raise UsageError(
            f"{url} cannot be read from here: buckets of Google Cloud are only written by hosts",
            hint=f"gcloud storage ls {url}/runs/",
        )
    return Bucket(asker(inventory.region), url.removeprefix("s3://"))
