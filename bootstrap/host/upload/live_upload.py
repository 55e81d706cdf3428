"""Uploads checkpoints, metrics, TensorBoard events and logs to the bucket during a run.

upload.live_upload FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID once|rest|always

The supervisor starts it with the Python of the uploader's environment. At the end of the run it
waits a few seconds for the end of the logs, and for nothing else. Checkpoints go to numbered
objects, checkpoints/files/0000 and so on; checkpoints/manifest.json names each file's number and
sha256 and is written last. An object that the manifest in the bucket names is never overwritten; an
object that it no longer names is reused. So the bucket has the folder's files, the last checkpoints
and the best one, without deletions, for which hosts have no permission. Overwritten objects become
old versions, which the bucket's lifecycle rule removes after a day.

Files that only grow are uploaded in pieces, live/NAME.OFFSET; logs as in logs.py. A thread uploads
both, so that a large checkpoint does not delay them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from railhead.documents.codec import encode
from railhead.documents.lazy import replace
from railhead.documents.runs.live_logs import LiveUploads
from railhead.documents.runs.manifest import Uploaded, UploadedCheckpoints, Uploads
from railhead.documents.runs.run import AfterRun, RunDocument

from ..base import bounded, json_file, programs, regular_files
from ..base.log_lines import print_line
from ..buckets.repeats import outlasting
from ..lease.fence import CHECKPOINTS
from ..output.recorded import METRICS
from ..run import checkpoint_files
from ..run.checkpoint_files import Stamp
from . import upload
from .changes import REST, Changes
from .logs import LogUpload

GROWN = "live.json"  # in the run's folder: the uploaded parts of growing files, and failures
STATUS = "uploads.json"  # in the run's folder: the manifest in the bucket, and failures
LOG = "logs/upload.log"
PAUSE = 5.0  # seconds between two checks of the folder
# Seconds between two pieces of a growing file: with the time of the upload, a lost chief loses less
# than a minute.
LIVE_PAUSE = 40.0
LAST = 3.0  # seconds for the end of the logs, after the run; `fab cancel` waits for it
PATIENCE = 60.0  # seconds to wait for a file that keeps changing
PIECE = 64 << 20  # bytes
EVENTS = "tensorboard"  # in results/


class CheckpointUpload:
    """Keeps the bucket's copy of the checkpoint folder; `files` is the manifest in the bucket."""

    def __init__(
        self, run: str, bucket: upload.Destination, before: Callable[[], object] = lambda: None
    ) -> None:
        """`before` is called before the list of the checkpoints is written."""
        self.run, self.bucket, self.before = run, bucket, before
        self.folder = os.path.join(run, checkpoint_files.FOLDER)
        self.files = load_status(run).files
        self.term = bucket.fence.term.number if bucket.fence else 1
        self.changes = Changes(self.folder)
        self.waits_since: float | None = None  # monotonic; None: all files but logs were at rest
        self.late: str | None = None  # the file that is no longer waited for
        self.full: str | None = None  # a note that older files may be left out

    def step(self) -> bool:
        """Upload new files, if the folder is at rest; True if the bucket has all files. OSError, or
        an error of the cloud's library: an upload failed; the bucket still has the previous
        checkpoints."""
        if self.bucket.fence and not self.bucket.fence.is_restored():
            return True
        stamps = checkpoint_files.complete_files(self.folder)
        most = checkpoint_files.FILES
        self.full = f"only the newest {most:,} files are uploaded" if len(stamps) == most else None
        if not stamps or stamps == {file.path: stamp_of(file) for file in self.files}:
            return True  # an emptied folder does not replace the uploaded files
        self.changes.look()
        restless = self.changes.restless().intersection(stamps)
        if self._must_wait(restless):
            return False
        settled = {path: stamp for path, stamp in stamps.items() if path not in restless}
        earlier = {file.path: file for file in self.files if file.path in restless}
        if settled.items() <= {file.path: stamp_of(file) for file in self.files}.items():
            return not restless
        try:
            entries = tuple(self._entries(settled, earlier))
        except FileNotFoundError:  # the training removed an old checkpoint meanwhile
            return False
        now = checkpoint_files.complete_files(self.folder)
        if {path: stamp for path, stamp in now.items() if path not in restless} != settled:
            return False
        self.before()
        self._publish(entries)
        return not restless

    def _must_wait(self, restless: set[str]) -> bool:
        """Whether to wait for the files that change now: they may form a checkpoint with the
        others. After PATIENCE seconds, the bucket gets the files that are at rest."""
        waits_for = restless - self.changes.logs()
        now = time.monotonic()
        if not waits_for:
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = now
        waited = now - self.waits_since if self.waits_since is not None else 0.0
        is_over = waited >= PATIENCE
        self.late = f"{min(waits_for)} changes all the time" if is_over else None
        return bool(waits_for) and not is_over

    def _entries(
        self, stamps: dict[str, Stamp], earlier: Mapping[str, Uploaded]
    ) -> Iterator[Uploaded]:
        """The manifest's entry of each file, which is uploaded if the bucket does not have it; for
        a file that changes now, the `earlier` entry."""
        yield from earlier.values()
        known = {(entry.path, *stamp_of(entry)): entry for entry in self.files}
        taken = {entry.object for entry in self.files}
        first = checkpoint_files.first_object(self.term)
        numbers = range(first, first + 2 * checkpoint_files.FILES)
        free = (n for n in numbers if n not in taken)
        for path, stamp in stamps.items():
            if entry := known.get((path, *stamp)):
                yield entry
                continue
            number, file = next(free), os.path.join(self.folder, path)
            size, sha256 = regular_files.size_and_sha256(file)
            name = checkpoint_files.object_of(number)
            self.bucket.put(file, name, sha256, short_lived=True)
            yield Uploaded(path, size, sha256, stamp[1], number)

    def _publish(self, entries: tuple[Uploaded, ...]) -> None:
        """Write the manifest to the bucket, then to the run's folder."""
        if self.bucket.fence:
            self.bucket.fence.write_checkpoints(self.bucket, UploadedCheckpoints(entries))
        else:
            data = json.dumps(encode(UploadedCheckpoints(entries)), indent=1).encode()
            self.bucket.write(data, CHECKPOINTS, short_lived=True)
        self.files = entries


class GrowingFiles:
    """Uploads the bytes that were added to metrics.jsonl and to TensorBoard's files since the last
    piece."""

    def __init__(
        self, run: str, bucket: upload.Destination, sent: dict[str, int] | None = None
    ) -> None:
        self.run, self.bucket = run, bucket
        self.sent = dict(sent or {})  # bytes, by name

    def step(self) -> None:
        """Upload the next piece of each file that has grown."""
        results = os.path.join(self.run, "results")
        files = checkpoint_files.walk(results, EVENTS)
        events = sorted(path for path, _ in files if "tfevents" in path)
        for name in (METRICS, *events):
            with contextlib.suppress(FileNotFoundError):
                self._piece(os.path.join(results, name), name)

    def _piece(self, path: str, name: str) -> None:
        begin = self.sent.get(name, 0)
        with regular_files.open_regular(path) as file:
            file.seek(begin)
            data = file.read(PIECE)
        if name == METRICS:  # an incomplete line is removed again on a full disk
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return
        self.bucket.write(data, piece_of(name, begin))
        self.sent[name] = begin + len(data)


def piece_of(name: str, begin: int) -> str:
    """The name of the object with a file's bytes from `begin` on, below the run's folder."""
    return f"live/{name}.{begin:012d}"


def stamp_of(file: Uploaded) -> Stamp:
    """The stamp of an uploaded file."""
    return file.bytes, file.mtime_ns


def load_status(run: str) -> Uploads:
    """The uploaded checkpoints so far."""
    return json_file.intact(os.path.join(run, STATUS), Uploads) or Uploads()


def save_status(run: str, uploaded: UploadedCheckpoints) -> None:
    """On a host that takes the run over, continue with the bucket's files; OSError if this cannot
    be written."""
    json_file.save(os.path.join(run, STATUS), Uploads(uploaded.files, time.time()))


def failure_of(work: Callable[[], object]) -> str | None:
    """Do one step; returns its error, which is also printed, or None."""
    try:
        work()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"[:400]
        print_line(why)
        return why
    return None


class GrowingUpload:
    """Uploads all growing files, and notes in the run's folder what was uploaded, so that another
    process can continue. A failed step is counted and tried again."""

    def __init__(self, run: str, url: str) -> None:
        self.bucket = bucket = upload.destination(url, run)
        self.lock = threading.Lock()
        self.run, self.status = run, load_grown(run)
        self.files = GrowingFiles(run, bucket, self.status.files)
        self.logs = LogUpload(run, bucket, self.status.logs)

    def step(self) -> None:
        """Upload one piece of each file; then a note of what was uploaded, for a host that takes
        the run over."""
        with self.lock:
            why = [failure_of(self.files.step), failure_of(self.logs.step)]
            self._note(next(filter(None, why), None))
            if self.bucket.fence:
                failure_of(lambda: self.bucket.put(os.path.join(self.run, GROWN), GROWN))

    def before_checkpoints(self) -> None:
        """Upload growing files before the list of checkpoints: a host that takes the run over needs
        the records of all steps of its checkpoint."""
        if self.bucket.fence:
            self.step()

    def _note(self, why: str | None) -> None:
        failed = self.status.failed + (why is not None)
        self.status = LiveUploads(dict(self.logs.logs), dict(self.files.sent), failed, why)
        with contextlib.suppress(OSError):  # a full disk does not end the uploads
            json_file.save(os.path.join(self.run, GROWN), self.status)


def load_grown(run: str) -> LiveUploads:
    """The uploaded parts of growing files so far."""
    return json_file.intact(os.path.join(run, GROWN), LiveUploads) or LiveUploads()


class LiveUpload:
    """The loop of this program; a failed upload is noted and tried again."""

    def __init__(self, run: str, url: str) -> None:
        self.run, self.ended = run, threading.Event()
        self.growing = GrowingUpload(run, url)  # has its own client: another thread uses it
        before = self.growing.before_checkpoints
        self.checkpoints = CheckpointUpload(run, upload.destination(url, run), before)
        self.status = Uploads(self.checkpoints.files, load_status(run).at)

    def checkpoint_step(self) -> bool:
        """Do one step for the checkpoints, and write its outcome to the run's folder; True if the
        bucket has all checkpoints. A failure is counted."""
        before, complete = self.status, []
        why = failure_of(lambda: complete.append(self.checkpoints.step()))
        failed = before.failed + (why is not None)
        short = self.checkpoints.full if complete == [True] else None
        self.status = replace(before, failed=failed, why=why or self.checkpoints.late or short)
        if self.checkpoints.files is not before.files:
            self.status = replace(self.status, files=self.checkpoints.files, at=time.time())
        if replace(self.status, files=before.files) != before:
            with contextlib.suppress(OSError):  # a full disk does not end the uploads
                json_file.save(os.path.join(self.run, STATUS), self.status)
        return complete == [True]

    def always(self) -> None:
        """Check the folder every PAUSE seconds. SIGTERM ends this process after one more step for
        the growing files, even during the upload of a checkpoint."""
        signal.signal(signal.SIGTERM, lambda *_: self.ended.set())
        threading.Thread(target=self._grow, daemon=True).start()
        while True:
            self.checkpoint_step()
            time.sleep(PAUSE)

    def _grow(self) -> None:
        while not self.ended.wait(LIVE_PAUSE):
            self.growing.step()
        self.growing.step()
        os._exit(0)


def start(run: RunDocument, folder: str) -> subprocess.Popen[bytes] | OSError:
    """Start the uploads of a run, a process that ends with this one. It has no RAILHEAD_RUN, so it
    survives the end of the run's processes."""
    try:
        return bounded.start_beside([*argv(run, folder), "always"], os.path.join(folder, LOG))
    except OSError as error:
        return error


def argv(run: AfterRun | RunDocument, folder: str) -> list[str]:
    """The command of this program, without its last argument."""
    return bounded.command_with_client(run, folder, programs.LIVE_UPLOAD)


def end(process: subprocess.Popen[bytes] | OSError, folder: str) -> str:
    """End the process, after the last part of the logs; returns why something was not uploaded
    during the run, or ""."""
    if isinstance(process, OSError):
        return f"no checkpoint was uploaded during the run: {process}"
    if (code := process.poll()) is not None:
        return f"the upload of checkpoints ended with exit code {code}: see {LOG}"
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LAST)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it may read from a dead network mount
        process.wait(bounded.GRACE)
    checkpoints, grown = load_status(folder), load_grown(folder)
    why = [
        f"{status.failed} uploads of {kind} failed, last: {status.why}"
        for status, kind in ((checkpoints, "checkpoints"), (grown, "logs and metrics"))
        if status.why
    ]
    return "; ".join(why)


def main(folder: str, url: str, mode: str) -> int:
    """`always`: upload until this process is terminated. `once`: upload the last checkpoints, after
    the results, whose logs replace the pieces. `rest`: upload the last checkpoints and growing
    files, without the results. Exit code 1: an upload failed."""
    uploads = LiveUpload(folder, url)
    if mode == "always":
        os.nice(5)
        uploads.always()
    if mode == "rest":
        uploads.growing.step()
    until = time.monotonic() + 10 * REST
    with outlasting():
        while not uploads.checkpoint_step():
            if uploads.status.why or time.monotonic() > until:
                print(uploads.status.why or "the checkpoints keep changing", file=sys.stderr)
                return 1
            time.sleep(0.5)
    if mode == "once":
        failure_of(uploads.growing.logs.empty)
    return 0
