"""A bucket of each cloud, `results-b`, versioned as a stack's is, and the cluster it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from standins.gcp.storage import Store, flipped

from bootstrap.inventory.hosts import Host, Inventory

MACHINE = (Host("m1", "192.0.2.1"),)
ON_AWS = Inventory("dev", MACHINE, cloud="aws", region="us-east-1", bucket="s3://results-b")
ON_GCP = Inventory("dev", MACHINE, cloud="gcp", region="us-central1", bucket="gs://results-b")


class OnS3:
    """A bucket of a real S3 server."""

    inventory = ON_AWS

    def __init__(self, client: Any) -> None:
        self.client = client

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self.client.put_object(Bucket="results-b", Key=name, Body=data)

    def names(self) -> list[str]:
        """The names of all objects that are there now."""
        listed = self.client.list_objects_v2(Bucket="results-b").get("Contents", [])
        return sorted(item["Key"] for item in listed)

    def flip(self, name: str) -> None:
        """Change one bit of an object, as another program might."""
        body = self.client.get_object(Bucket="results-b", Key=name)["Body"].read()
        self.put(name, flipped(body))

    def take(self, name: str) -> None:
        """Remove an object; it stays as an old version."""
        self.client.delete_object(Bucket="results-b", Key=name)

    def drop(self) -> None:
        """Remove the bucket, which must be empty of every version."""
        self.client.delete_bucket(Bucket="results-b")


@dataclass
class OnGcs:
    """A bucket of Google Cloud, as the stand-in has it."""

    store: Store
    inventory = ON_GCP

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self.store.put("results-b", name, data)

    def names(self) -> list[str]:
        """The names of all objects that are there now."""
        return self.store.names("results-b")

    def flip(self, name: str) -> None:
        """Change one bit of an object, as another program might."""
        self.put(name, flipped(self.store.live("results-b", name)[0]["data"]))

    def take(self, name: str) -> None:
        """Remove an object; it stays as an old version."""
        self.store.live("results-b", name)[0]["timeDeleted"] = "2026-11-21T00:00:00Z"

    def drop(self) -> None:
        """Remove the bucket, which must be empty of every version."""
        assert self.store.buckets.pop("results-b") == []


World = OnS3 | OnGcs
