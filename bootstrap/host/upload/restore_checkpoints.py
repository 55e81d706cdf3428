"""Fetches the checkpoints of a run from the bucket into a new folder, and verifies each file.

upload.restore_checkpoints s3://bucket/runs/ID|gs://bucket/runs/ID FOLDER   -> one JSON line

Runs on the chief with the Python of the uploader's environment. A file that differs from the
manifest is left out: the program continues from an older checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from typing import TypeVar

from railhead.documents.codec import encode
from railhead.documents.runs.manifest import Restored, Uploaded, UploadedCheckpoints

from ..base import json_file, regular_files
from ..buckets.folder import BucketFolder, bucket_folder
from ..run import checkpoint_files

PAUSES = (1.0, 2.0, 4.0)  # seconds before the next try of a download
RESERVED = 1_000_000_000  # bytes of the disk that stay free
T = TypeVar("T")


def restore(bucket: BucketFolder, folder: str, *, keep_times: bool = False) -> Restored:
    """Fetch all files of the manifest; with `keep_times`, they keep their mtimes, so that the same
    run does not upload them again. OSError: there is not enough space, or the bucket refuses.
    ValueError: the manifest is damaged, or names a path outside the folder."""
    os.makedirs(folder, exist_ok=True)
    listed = os.path.join(folder, ".manifest")
    again(lambda: bucket.get(f"{checkpoint_files.FOLDER}/{checkpoint_files.MANIFEST}", listed))
    entries = json_file.read(listed, UploadedCheckpoints).files
    os.remove(listed)
    total = sum(entry.bytes for entry in entries)
    free = shutil.disk_usage(folder).free
    if total + RESERVED > free:
        raise OSError(
            f"the checkpoints have {total / 1e6:.0f} MB, {free / 1e6:.0f} MB are free, and "
            f"{RESERVED / 1e6:.0f} MB of it must stay free"
        )
    damaged = tuple(entry.path for entry in entries if not fetched(bucket, entry, folder))
    for entry in entries:
        if keep_times and entry.path not in damaged:
            os.utime(os.path.join(folder, entry.path), ns=(entry.mtime_ns, entry.mtime_ns))
    return Restored(len(entries) - len(damaged), total, damaged)


def again(request: Callable[[], T]) -> T:
    """Do a request; if it fails, again after a pause, because the machines wait for it."""
    for pause in PAUSES:
        try:
            return request()
        except Exception:
            time.sleep(pause)
    return request()


def fetched(bucket: BucketFolder, entry: Uploaded, folder: str) -> bool:
    """Fetch one file to its place; False if its content differs from the manifest."""
    path = os.path.join(folder, entry.path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = os.path.join(folder, f".part-{entry.object}")
    again(lambda: bucket.get(checkpoint_files.object_of(entry.object), partial))
    if regular_files.size_and_sha256(partial) != (entry.bytes, entry.sha256):
        os.remove(partial)
        return False
    os.replace(partial, path)
    return True


def main(url: str, folder: str) -> None:
    """Restore, and print the outcome."""
    print(json.dumps(encode(restore(bucket_folder(url), os.path.abspath(folder)))))
