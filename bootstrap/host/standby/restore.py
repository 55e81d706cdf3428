"""Restores a run from its bucket into its folder on the host that takes it over: its newest
checkpoints, its metrics, TensorBoard's files and logs, as far as they were uploaded. The uploads
continue from there.

standby.restore FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID TERM

Everything appears, or nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil

from railhead.documents.codec import decode
from railhead.documents.runs import live_logs
from railhead.documents.runs.live_logs import HEAD, PIECES, LiveUploads, Piece, Progress
from railhead.documents.runs.manifest import fault

from ..base import json_file
from ..buckets.folder import BucketFolder, bucket_folder
from ..lease import fence
from ..run import checkpoint_files
from ..upload import live_upload, restore_checkpoints
from ..upload.logs import identity
from ..upload.restore_checkpoints import again

LOG = re.compile(r"(rank-\d{1,5}|mpirun)")
RESTORED = "restored"  # in the run's folder, until it is complete
SUPERVISOR = "supervisor"  # not restored: its log is the standby's, which is open


def restore(bucket: BucketFolder, folder: str, term: int) -> None:
    """Restore a run for this term of its lease. OSError, or an error of the cloud's library: the
    bucket does not answer, or the disk is full. ValueError: a document is damaged."""
    incoming = os.path.join(folder, RESTORED)
    shutil.rmtree(incoming, ignore_errors=True)
    os.makedirs(incoming)
    download(bucket, incoming, term)
    place(incoming, folder)


def download(bucket: BucketFolder, folder: str, term: int) -> None:
    """Download a run into an empty folder."""
    # First, and unchanged: from now on the host of an earlier term cannot write this list.
    checkpoints = again(lambda: fence.rewrite_checkpoints(bucket, term))
    if checkpoints.files:
        target = os.path.join(folder, checkpoint_files.FOLDER)
        restore_checkpoints.restore(bucket, target, keep_times=True)
    live_upload.save_status(folder, checkpoints)
    text = look(bucket, live_upload.GROWN)
    index = decode(LiveUploads, json.loads(text)) if text else LiveUploads()
    files = {name: join_file(bucket, folder, name) for name in index.files if not fault(name)}
    logs = {
        name: join_log(bucket, folder, name, progress)
        for name, progress in index.logs.items()
        if LOG.fullmatch(name)
    }
    if earlier := index.logs.get(SUPERVISOR):
        logs[SUPERVISOR] = Progress(sent=earlier.sent, number=earlier.number)
    json_file.save(os.path.join(folder, live_upload.GROWN), LiveUploads(logs, files))


def join_file(bucket: BucketFolder, folder: str, name: str) -> int:
    """Join the pieces of a growing file; returns its bytes."""
    path, size = os.path.join(folder, "results", name), 0
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        while data := look(bucket, live_upload.piece_of(name, size)):
            size += file.write(data)
    return size


def join_log(bucket: BucketFolder, folder: str, name: str, progress: Progress) -> Progress:
    """Join the pieces of a log; returns how much of the new file was uploaded."""
    pieces = []
    for number in range(min(progress.number + 1, PIECES)):
        if content := look(bucket, live_logs.object_of(name, number)):
            head, _, data = content.partition(b"\n")
            pieces.append((decode(Piece, json.loads(head[:HEAD])), data))
    path = os.path.join(folder, "logs", f"{name}.log")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.writelines(live_logs.joined(pieces))
        inode, born = identity(file)
        return Progress(inode, file.tell(), progress.sent, progress.number, born)


def place(source: str, folder: str) -> None:
    """Move all files of a folder to the same names below another folder; last the files at the top,
    which say what was uploaded."""
    for parent, _, names in os.walk(source, topdown=False):
        target = os.path.join(folder, os.path.relpath(parent, source))
        os.makedirs(target, exist_ok=True)
        for name in names:
            os.replace(os.path.join(parent, name), os.path.join(target, name))
        os.rmdir(parent)


def look(bucket: BucketFolder, name: str) -> bytes | None:
    """An object of the run; None if there is none."""
    stored = again(lambda: bucket.objects.look(bucket.uri.key(name)))
    return stored.data if stored else None


def main(folder: str, url: str, term: str) -> None:
    """Restore; the last line of an error is its reason."""
    restore(bucket_folder(url), folder, int(term))
