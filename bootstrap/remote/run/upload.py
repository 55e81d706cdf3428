"""Uploads a run's results to the bucket; verifies each file by its hash, uploads the manifest last.

run.upload FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID [NAME]

With NAME, only that file of the folder is uploaded. Needs a Python with boto3 and google-auth; the
credentials are those of the machine's role. Python 3.10.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from railhead.documents.runs.manifest import Manifest, home_name
from railhead.documents.uri import BucketUri, bucket_uri

from ..buckets import gcs, s3
from ..buckets.objects import SILENCE, SharedObjects
from ..takeover.fence import Fence, fence_of
from . import json_file, manifest

OPENERS: Mapping[str, Callable[[str, float], SharedObjects]] = {  # by scheme
    "s3": s3.open_objects,
    "gs": gcs.open_objects,
}


@dataclass(frozen=True)
class Destination:
    """A folder of a bucket, which the cloud writes as it was sent or refuses. `fence`: only the
    holder of the run's lease writes it; LeaseLost otherwise."""

    uri: BucketUri
    objects: SharedObjects
    fence: Fence | None = None

    def put(self, path: str, name: str, sha256: str = "", *, short_lived: bool = False) -> None:
        """Upload one file, which has this hash."""
        if self.fence:
            self.fence.check(self)
        sha256 = sha256 or manifest.size_and_sha256(path)[1]
        self.objects.upload(self.uri.key(name), Path(path), sha256, short_lived=short_lived)

    def get(self, name: str, path: str) -> None:
        """Download one object into a file."""
        with open(path, "wb") as file:
            file.writelines(self.objects.read(self.uri.key(name)))


def destination(url: str, run: str = "", silence: float = SILENCE) -> Destination:
    """The bucket folder of a URL, with the rights of this machine; for what is published of a run,
    with the run's folder on this host. `silence`: seconds until a request is repeated."""
    uri = bucket_uri(url)
    objects = OPENERS[uri.scheme](uri.bucket, silence)
    return Destination(uri, objects, fence_of(run) if run else None)


def upload(folder: str, url: str) -> None:
    """Upload all files of the manifest, then the manifest itself: if it exists, all files do."""
    bucket = destination(url, folder)
    manifest_path = os.path.join(folder, "results", "manifest.json")
    for entry in json_file.read(manifest_path, Manifest).files:
        path = os.path.join(folder, entry.path)
        if manifest.size_and_sha256(path) != (entry.bytes, entry.sha256):
            raise OSError(f"{entry.path} has changed since the run ended")
        bucket.put(path, home_name(entry.path), entry.sha256)
    if bucket.fence:
        bucket.fence.create(bucket, manifest_path, "manifest.json")
    else:
        bucket.put(manifest_path, "manifest.json")


def main(folder: str, url: str, *names: str) -> None:
    """Upload the results; or only the named files, after the results."""
    for name in names:
        destination(url).put(os.path.join(folder, name), name)
    if not names:
        upload(folder, url)
