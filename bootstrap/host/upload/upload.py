"""Uploads a run's results to the bucket; verifies each file by its hash, uploads the manifest last.

upload.upload FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID [NAME]

With NAME, only that file of the folder is uploaded. Needs a Python with boto3 and google-auth; the
credentials are those of the machine's role.
"""

from __future__ import annotations

import os
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Manifest, home_name

from ..base import json_file, regular_files
from ..buckets.folder import BucketFolder, bucket_folder
from ..buckets.repeats import outlasting
from ..lease.fence import Fence, fence_of


@dataclass(frozen=True)
class Destination(BucketFolder):
    """The bucket folder in which a host publishes a run's files. `fence`: only the holder of the
    run's lease may write it; LeaseLost otherwise."""

    fence: Fence | None = None

    def put(self, path: str, name: str, sha256: str = "", *, short_lived: bool = False) -> None:
        """Upload one file with this hash."""
        self._check()
        sha256 = sha256 or regular_files.size_and_sha256(path)[1]
        self.objects.upload(self.uri.key(name), Path(path), sha256, short_lived=short_lived)

    def write(self, data: bytes, name: str, *, short_lived: bool = False) -> None:
        """Upload some megabytes."""
        self._check()
        self.objects.write(self.uri.key(name), data, short_lived=short_lived)

    def _check(self) -> None:
        if self.fence:
            self.fence.check(self)


def destination(url: str, run: str = "") -> Destination:
    """The destination at this URL; `run`: the run's folder on this host, if only the holder of its
    lease may publish."""
    folder = bucket_folder(url)
    return Destination(folder.uri, folder.objects, fence_of(run) if run else None)


def upload(folder: str, url: str) -> None:
    """Upload all files of the manifest, then the manifest itself: if it exists, all files do."""
    bucket = destination(url, folder)
    manifest_path = os.path.join(folder, "results", "manifest.json")
    for entry in json_file.read(manifest_path, Manifest).files:
        path = os.path.join(folder, entry.path)
        if regular_files.size_and_sha256(path) != (entry.bytes, entry.sha256):
            raise OSError(f"{entry.path} has changed since the run ended")
        bucket.put(path, home_name(entry.path), entry.sha256)
    if bucket.fence:
        bucket.fence.create(bucket, manifest_path, "manifest.json")
    else:
        bucket.put(manifest_path, "manifest.json")


@outlasting()
def main(folder: str, url: str, *names: str) -> None:
    """Upload the results; or only the named files, after the results."""
    for name in names:
        destination(url).put(os.path.join(folder, name), name)
    if not names:
        upload(folder, url)
