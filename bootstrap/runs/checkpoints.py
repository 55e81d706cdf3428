"""The checkpoints of a run: where they are, and how they are fetched.

On a host they are in the run's folder, in a bucket below runs/ID/checkpoints, on this computer in
the folder of the run's results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Uploaded, UploadedCheckpoints, Uploads

from ..clouds.bucket import Bucket
from ..console.output import Reporter
from ..console.text import clean, count, size
from ..errors import RailheadError, UsageError
from ..host.run import checkpoint_files
from ..host.run.checkpoint_files import FOLDER, MANIFEST
from ..inventory.files import refuse_too_much
from ..ssh.session import Session
from ..untrusted import unpack
from ..untrusted.decode import parsed
from ..untrusted.manifest import LIMIT, is_same
from .run import Run, read_json

LIST_SECONDS = 120.0  # without output while a host lists its files
LISTED = re.compile(r"([0-9]{1,18}) \./(.+)")  # one line of that list
UPLOADS = "uploads.json"
File = tuple[str, int]  # path below the checkpoint folder, bytes


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint files of a run in one place, which messages call `place`."""

    place: str
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return sum(size for _, size in self.files)

    @property
    def newest(self) -> str:
        """The newest `step-*` folder; "" if the program names its files itself."""
        return checkpoint_files.newest([path for path, _ in self.files])

    def __str__(self) -> str:
        what = self.newest or count(len(self.files), "file")
        return f"{what} ({size(self.bytes)} in all, {self.place})"


def on_host(session: Session, run: Run) -> Checkpoints:
    """The complete checkpoint files of a run on a host whose agent runs."""
    folder = f"{run.folder}/{FOLDER}"
    sizes = unpack.pairs(session.sizes(folder, ["**"]))
    return Checkpoints(f"on {session.host.name}", _complete(sizes))


def on_host_without_agent(session: Session, run: Run) -> Checkpoints:
    """As `on_host`, but without an agent: system changes, which come later, need the channel
    without it.

    Raises:
        RailheadError: the host did not answer in time, or its answer is not a list of files.
    """
    lines, _ = session.shell(list_command(run), silence=LIST_SECONDS)
    return of_list(session.host.name, lines)


def list_command(run: Run) -> str:
    """The shell command that lists the checkpoint files on a host."""
    list_files = "find . -type f -exec stat -c '%s %n' {} +"
    return f"cd {run.folder}/{FOLDER} 2>/dev/null && {list_files} 2>/dev/null"


def of_list(host: str, lines: Sequence[str]) -> Checkpoints:
    """The complete files in a host's list; Hostile if the lines are not a list of files."""
    matches = [LISTED.fullmatch(line) for line in lines]
    if not all(matches):
        raise unpack.Hostile("a list of files that is not valid")
    sizes = unpack.pairs([(match[2], int(match[1])) for match in matches if match])
    return Checkpoints(f"on {host}", _complete(sizes))


def in_bucket(bucket: Bucket, run: Run) -> Checkpoints:
    """The checkpoint files that were uploaded; none if no upload was completed."""
    files = tuple((file.path, file.bytes) for file in _uploaded(bucket, run))
    return Checkpoints(f"in {bucket.store.url}/runs/{run.run_id}", files)


def here(run: Run) -> Checkpoints:
    """The checkpoint files among the results on this computer."""
    folder = run.results / FOLDER
    stamps = checkpoint_files.complete_files(str(folder))
    return Checkpoints(f"in {folder}", tuple((path, stamp[0]) for path, stamp in stamps.items()))


def status_lines(session: Session, run: Run) -> list[str]:
    """As `lines_of`, from a chief whose agent runs."""
    status = read_json(session, f"{run.folder}/{UPLOADS}", Uploads) or Uploads()
    return lines_of(on_host(session, run), status)


def lines_of(on_chief: Checkpoints, status: Uploads) -> list[str]:
    """A line about the checkpoints on the chief and their upload; none without checkpoints."""
    if not on_chief.files:
        return []
    uploaded = [file.path for file in status.files]
    newest = checkpoint_files.newest(uploaded) or (uploaded and count(len(uploaded), "file"))
    sent = f"; uploaded: {newest}" if newest else ""
    failed = f"; the upload fails: {clean(status.why)[:200]}" if status.why else ""
    return [f"checkpoints: {on_chief}{sent}{failed}"]


def _complete(files: Sequence[File]) -> tuple[File, ...]:
    """The complete files: without temporary files, and without `step-*` folders that have no
    manifest."""
    sizes = dict(files)
    return tuple((path, sizes[path]) for path in sorted(checkpoint_files.complete(sizes)))


def _uploaded(bucket: Bucket, run: Run) -> tuple[Uploaded, ...]:
    """The files of the uploaded checkpoints."""
    data = bucket.read(f"runs/{run.run_id}/{FOLDER}/{MANIFEST}", LIMIT)
    if data is None:
        return ()
    return parsed(UploadedCheckpoints, data, "a manifest of checkpoints").files


def fetch_from_host(session: Session, run: Run, report: Reporter = lambda _: None) -> Checkpoints:
    """Fetch the newest checkpoint of a run into its results; all files if the program names them
    itself."""
    on_chief = on_host(session, run)
    wanted = [file for file in on_chief.files if file[0].startswith(on_chief.newest)]
    total = sum(size for _, size in wanted)
    if not wanted:
        report(f"no checkpoint {on_chief.place}")
        return here(run)
    report(f"checkpoints: {on_chief}")
    with unpack.stage(run.results) as stage:
        refuse_too_much(2 * total, stage, "the checkpoints")
        packed, files = stage / "packed", stage / "files"
        patterns = [unpack.literal(path) for path, _ in wanted]
        session.get(f"{run.folder}/{FOLDER}", patterns, packed, limit=total)
        for path in unpack.unpack(packed, files, total):
            unpack.place(unpack.local_path(files, path), run.results, f"{FOLDER}/{path}")
    return here(run)


def fetch_from_bucket(bucket: Bucket, run: Run, report: Reporter = lambda _: None) -> Checkpoints:
    """Fetch the newest uploaded checkpoint into the results; all files if the program names them
    itself.

    Raises:
        RailheadError: a file differs from the manifest.
    """
    uploaded = in_bucket(bucket, run)
    wanted = [file for file in _uploaded(bucket, run) if file.path.startswith(uploaded.newest)]
    if not wanted:
        report(f"no checkpoint {uploaded.place}")
        return here(run)
    report(f"checkpoints: {uploaded}")
    with unpack.stage(run.results) as stage:
        refuse_too_much(sum(file.bytes for file in wanted), stage, "the checkpoints")
        for file in wanted:
            path = stage / f"{file.object}"
            try:
                key = f"runs/{run.run_id}/{checkpoint_files.object_of(file.object)}"
                bucket.get(key, path, file.bytes)
            except KeyError as missing:
                raise _changed(file, bucket) from missing
            if not is_same(file, path):
                raise _changed(file, bucket)
        for file in wanted:
            unpack.place(stage / f"{file.object}", run.results, f"{FOLDER}/{file.path}")
    return here(run)


def _changed(file: Uploaded, bucket: Bucket) -> RailheadError:
    return RailheadError(
        f"checkpoint file {file.path} in {bucket.store.url} differs from its manifest",
        hint="the same command again, when the run has uploaded its next checkpoint",
    )


def refuse_none(run: Run, places: Sequence[str]) -> UsageError:
    """The error for a run that has no checkpoint in any place."""
    return UsageError(
        f"run {run.run_id} has no checkpoint: looked {', '.join(places)}",
        hint="start it again without --resume; the built-in training writes checkpoints with "
        "--set checkpoint_steps=N or checkpoint_minutes=N, a script in RAILHEAD_CHECKPOINT_DIR",
    )
