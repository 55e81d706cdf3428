"""Uploads checkpoints, metrics and TensorBoard events to the bucket during a run.

run.live_upload FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID once|always

The supervisor starts it with the Python of the uploader's environment, and never waits for it.
Checkpoints go to numbered objects, checkpoints/files/0000 and so on; checkpoints/manifest.json
names each file's number and sha256 and is written last. An object that the manifest in the bucket
names is never overwritten; one that it no longer names is used again. So the bucket has what the
folder has, the last checkpoints and the best one, and nothing must be deleted: hosts have no right
to. Overwritten objects become old versions, which the bucket's lifecycle rule removes after a day.

Files that only grow go in pieces, live/NAME.OFFSET. Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from railhead.documents.manifest import Uploaded, UploadedCheckpoints, Uploads
from railhead.documents.run import AfterRun, RunDocument

from .. import programs
from . import bounded, checkpoint_files, json_file, manifest, upload
from .checkpoint_files import Stamp

STATUS = "uploads.json"  # in the run's folder: the manifest in the bucket, and what failed
LOG = "logs/upload.log"
PAUSE = 5.0  # seconds between two looks at the folder
LIVE_PAUSE = 60.0  # seconds between two pieces of a growing file
SETTLED = 2.0  # seconds without a change, before a program's own files are taken as complete
PIECE = 64 << 20  # bytes
EVENTS = "tensorboard"


class CheckpointUpload:
    """Keeps the bucket's copy of the checkpoint folder; `files` is the manifest in the bucket."""

    def __init__(self, run: str, bucket: upload.Destination) -> None:
        self.run, self.bucket = run, bucket
        self.folder = os.path.join(run, checkpoint_files.FOLDER)
        self.files = load_status(run).files

    def step(self) -> bool:
        """Upload what is new, if the folder is at rest; True if the bucket has all of it.

        Raises:
            OSError, or an error of the cloud's library: an upload failed; the bucket still has the
                previous checkpoints.
        """
        stamps = checkpoint_files.complete_files(self.folder)
        if not stamps or stamps == {file.path: stamp_of(file) for file in self.files}:
            return True  # an emptied folder does not replace what was uploaded
        if not is_settled(stamps):
            return False
        try:
            entries = tuple(self._entries(stamps))
        except FileNotFoundError:  # the training removed an old checkpoint meanwhile
            return False
        if checkpoint_files.complete_files(self.folder) != stamps:
            return False
        self._publish(entries)
        return True

    def _entries(self, stamps: dict[str, Stamp]) -> Iterator[Uploaded]:
        """An entry of the manifest for each file, uploaded where the bucket does not have it."""
        known = {(entry.path, *stamp_of(entry)): entry for entry in self.files}
        taken = {entry.object for entry in self.files}
        free = (n for n in range(2 * checkpoint_files.FILES) if n not in taken)
        for path, stamp in stamps.items():
            if entry := known.get((path, *stamp)):
                yield entry
                continue
            number, file = next(free), os.path.join(self.folder, path)
            size, sha256 = manifest.size_and_sha256(file)
            name = checkpoint_files.object_of(number)
            self.bucket.put(file, name, sha256, short_lived=True)
            yield Uploaded(path, size, sha256, stamp[1], number)

    def _publish(self, entries: tuple[Uploaded, ...]) -> None:
        """Write the manifest to the bucket, then to the run's folder."""
        path = os.path.join(self.run, f"{STATUS}.manifest")
        json_file.save(path, UploadedCheckpoints(entries))
        name = f"{checkpoint_files.FOLDER}/{checkpoint_files.MANIFEST}"
        self.bucket.put(path, name, short_lived=True)
        self.files = entries


class GrowingFiles:
    """Uploads what was added to metrics.jsonl and to TensorBoard's files since the last piece."""

    def __init__(self, run: str, bucket: upload.Destination) -> None:
        self.run, self.bucket = run, bucket
        self.sent: dict[str, int] = {}  # bytes, by name

    def step(self) -> None:
        """Upload the next piece of each file that has grown."""
        results = os.path.join(self.run, "results")
        for name in ("metrics.jsonl", *self._events(results)):
            with contextlib.suppress(FileNotFoundError):
                self._piece(os.path.join(results, name), name)

    def _events(self, results: str) -> list[str]:
        files = checkpoint_files.walk(results, EVENTS)
        return sorted(path for path, _ in files if "tfevents" in path)

    def _piece(self, path: str, name: str) -> None:
        begin = self.sent.get(name, 0)
        with manifest.open_regular(path) as file:
            file.seek(begin)
            data = file.read(PIECE)
        if not data:
            return
        part = os.path.join(self.run, f"{STATUS}.piece")
        with open(part, "wb") as file:
            file.write(data)
        self.bucket.put(part, f"live/{name}.{begin:012d}")
        self.sent[name] = begin + len(data)


def stamp_of(file: Uploaded) -> Stamp:
    """The stamp of an uploaded file."""
    return file.bytes, file.mtime_ns


def is_settled(stamps: dict[str, Stamp]) -> bool:
    """Whether the program's own files have not changed for SETTLED seconds."""
    times = [ns for path, (_, ns) in stamps.items() if not checkpoint_files.is_fixed(path)]
    return not times or time.time() - max(times) / 1e9 >= SETTLED


def load_status(run: str) -> Uploads:
    """What was uploaded so far."""
    with contextlib.suppress(OSError, ValueError):
        return json_file.read(os.path.join(run, STATUS), Uploads)
    return Uploads()


class LiveUpload:
    """The loop of this program; a failed upload is noted and tried again."""

    def __init__(self, run: str, url: str) -> None:
        bucket = upload.destination(url)
        self.run = run
        self.checkpoints, self.growing = CheckpointUpload(run, bucket), GrowingFiles(run, bucket)
        self.status = Uploads(self.checkpoints.files, load_status(run).at)

    def attempt(self, work: Callable[[], bool | None]) -> bool:
        """Do one step; True if it succeeded. A failure is counted."""
        try:
            succeeded = work() is not False
        except Exception as error:
            why, failed = f"{type(error).__name__}: {error}"[:400], self.status.failed + 1
            self.status = replace(self.status, failed=failed, why=why)
            print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), why, flush=True)
            return False
        self.status = replace(self.status, why=None)
        return succeeded

    def checkpoint_step(self) -> bool:
        """One step for the checkpoints, and its outcome in the run's folder."""
        before = self.status
        succeeded = self.attempt(self.checkpoints.step)
        if self.checkpoints.files is not before.files:
            self.status = replace(self.status, files=self.checkpoints.files, at=time.time())
        if self.status.at != before.at or self.status.failed != before.failed:
            self.save()
        return succeeded

    def save(self) -> None:
        """Write the outcome; a full disk does not end the uploads."""
        with contextlib.suppress(OSError):
            json_file.save(os.path.join(self.run, STATUS), self.status)

    def always(self) -> None:
        """Look at the folder every PAUSE seconds, until the supervisor ends this process."""
        last = time.monotonic()
        while True:
            self.checkpoint_step()
            if time.monotonic() - last >= LIVE_PAUSE:
                last = time.monotonic()
                self.attempt(self.growing.step)
            time.sleep(PAUSE)


def start(run: RunDocument, folder: str) -> subprocess.Popen[bytes] | OSError | None:
    """Start the uploads of a run, as a process that ends with this one; None without a bucket.

    It has no RAILHEAD_RUN: ending the processes of the run does not end it.
    """
    if not run.bucket:
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAILHEAD_")}
    try:
        with open(os.path.join(folder, LOG), "ab") as log:
            return subprocess.Popen(
                [*argv(run, folder), "always"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=bounded.end_with_parent,
            )
    except OSError as error:
        return error


def argv(run: AfterRun | RunDocument, folder: str) -> list[str]:
    """The command of this program, without its last argument."""
    assert run.bucket
    python = os.path.expanduser(f"~/.railhead/envs/{run.bucket.client}/bin/python")
    url = run.bucket.place_of(run.run_id)
    return [python, "-I", programs.ARCHIVE, "run.live_upload", folder, url]


def end(process: subprocess.Popen[bytes] | OSError | None, folder: str) -> str:
    """End the process; returns why checkpoints were not uploaded during the run, or ""."""
    if process is None:
        return ""
    if isinstance(process, OSError):
        return f"no checkpoint was uploaded during the run: {process}"
    if (code := process.poll()) is not None:
        return f"the upload of checkpoints ended with exit code {code}: see {LOG}"
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it may read from a dead network mount
        process.wait(bounded.GRACE)
    status = load_status(folder)
    if status.why:
        return f"{status.failed} uploads of checkpoints failed, last: {status.why}"
    return ""


def main(folder: str, url: str, mode: str) -> int:
    """Upload once, or until this process is killed; exit code 1 if the one upload failed."""
    uploads = LiveUpload(folder, url)
    if mode == "always":
        os.nice(5)
        uploads.always()
    until = time.monotonic() + 10 * SETTLED
    while not uploads.checkpoint_step():
        if uploads.status.why or time.monotonic() > until:
            print(uploads.status.why or "the checkpoints keep changing", file=sys.stderr)
            return 1
        time.sleep(0.5)
    return 0
