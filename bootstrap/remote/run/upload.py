"""Uploads a run's results to the bucket; verifies each file by its hash, uploads the manifest last.

run.upload FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID [NAME]

With NAME, only that file of the folder is uploaded. Needs a Python with boto3 and
google-cloud-storage; the credentials are those of the machine's role. Python 3.10.
"""

from __future__ import annotations

import base64
import os

from railhead.documents.manifest import Manifest, home_name

from . import json_file, manifest

WHOLE = 5_000_000_000  # bytes: S3's limit of one put; a multipart object has no sha256 of the whole


class S3:
    """A folder in an S3 bucket. S3 itself verifies the sha256 and rejects other content."""

    def __init__(self, url: str) -> None:
        import boto3
        from botocore.config import Config

        retries = {"mode": "standard", "max_attempts": 6}
        self.client = boto3.client("s3", config=Config(retries=retries, connect_timeout=10))
        self.bucket, _, self.prefix = url.removeprefix("s3://").partition("/")

    def put(self, path: str, name: str, size: int, sha256: str) -> None:
        """Upload one file; raises OSError when the stored object differs."""
        key = f"{self.prefix}/{name}"
        if size > WHOLE:
            self.client.upload_file(
                path, self.bucket, key, ExtraArgs={"ChecksumAlgorithm": "SHA256"}
            )
            return
        digest = base64.b64encode(bytes.fromhex(sha256)).decode()
        with open(path, "rb") as body:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, ChecksumSHA256=digest)
        # S3 has verified the hash during the upload; some compatible services do not return it.
        stored = self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        if (stored["ContentLength"], stored.get("ChecksumSHA256", digest)) != (size, digest):
            raise OSError(f"{key} is in the bucket with another content")

    def get(self, name: str, path: str) -> None:
        """Download one object into a file."""
        self.client.download_file(self.bucket, f"{self.prefix}/{name}", path)


class Gcs:
    """A folder in a Google Cloud Storage bucket. The client verifies the crc32c."""

    def __init__(self, url: str) -> None:
        from google.cloud import storage  # type: ignore[import-untyped]

        name, _, self.prefix = url.removeprefix("gs://").partition("/")
        self.bucket = storage.Client().bucket(name)

    def put(self, path: str, name: str, size: int, sha256: str) -> None:
        """Upload one file; raises OSError when the stored object differs."""
        blob = self.bucket.blob(f"{self.prefix}/{name}")
        blob.metadata = {"sha256": sha256}
        blob.upload_from_filename(path, checksum="crc32c")
        if blob.size != size:
            raise OSError(f"{blob.name} is in the bucket with another size")

    def get(self, name: str, path: str) -> None:
        """Download one object into a file. The client verifies the crc32c."""
        self.bucket.blob(f"{self.prefix}/{name}").download_to_filename(path)


def destination(url: str) -> S3 | Gcs:
    """The bucket folder of a URL."""
    return S3(url) if url.startswith("s3://") else Gcs(url)


def upload(folder: str, url: str) -> None:
    """Upload all files of the manifest, then the manifest itself: if it exists, all files do."""
    bucket = destination(url)
    manifest_path = os.path.join(folder, "results", "manifest.json")
    for entry in json_file.read(manifest_path, Manifest).files:
        path = os.path.join(folder, entry.path)
        found = manifest.size_and_sha256(path)
        if found != (entry.bytes, entry.sha256):
            raise OSError(f"{entry.path} has changed since the run ended")
        bucket.put(path, home_name(entry.path), *found)
    bucket.put(manifest_path, "manifest.json", *manifest.size_and_sha256(manifest_path))


def main(folder: str, url: str, *names: str) -> None:
    """Upload the results, or only the named files."""
    for name in names:
        path = os.path.join(folder, name)
        destination(url).put(path, name, *manifest.size_and_sha256(path))
    if not names:
        upload(folder, url)
