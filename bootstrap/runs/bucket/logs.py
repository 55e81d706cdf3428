"""Reads a log of a run from the bucket: from its results, or from the pieces uploaded during the
run.

The bucket's objects are untrusted: a host may write anything there.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from itertools import islice

from railhead.documents.lazy import dataclass
from railhead.documents.runs import live_logs
from railhead.documents.runs.live_logs import HEAD, PIECE, Piece

from ...clouds.bucket import Bucket
from ...errors import RailheadError, UsageError
from ...untrusted.decode import parsed
from ..run import Run

LIMIT = 100_000_000  # bytes of a log: twice as much as the supervisor writes into one
OBJECT = re.compile(r"(rank-\d{1,5}|mpirun|supervisor)\.0\d{3}")
LOG = re.compile(r"logs/(rank-\d{1,5}|mpirun|supervisor)\.log")  # in the results
PAGES = 1000  # of a list, with 1,000 objects each


@dataclass(frozen=True)
class BucketLog:
    """A log, and a sentence that says where it comes from and when it ends."""

    text: str
    source: str


def read(bucket: Bucket, run: Run, name: str) -> BucketLog:
    """The log of this name: rank-0, mpirun, supervisor.

    Raises:
        UsageError: it is not in the bucket; the message lists the logs that are.
    """
    log = _of_results(bucket, run, name) or _of_pieces(bucket, run, name)
    if log is None:
        raise _missing(bucket, run, name)
    return log


def _of_results(bucket: Bucket, run: Run, name: str) -> BucketLog | None:
    """The log of a run that has ended; None if its results are not in the bucket."""
    manifest = bucket.manifest(run.run_id)
    entries = manifest.files if manifest else ()
    entry = next((entry for entry in entries if entry.path == f"logs/{name}.log"), None)
    if entry is None:
        return None
    data = bucket.read(f"runs/{run.run_id}/{entry.home}", min(entry.bytes, LIMIT))
    if data is None or hashlib.sha256(data).hexdigest() != entry.sha256:
        raise RailheadError(f"{entry.path} in {_place(bucket, run)} differs from its manifest")
    return BucketLog(data.decode(errors="replace"), f"{_place(bucket, run)}: the complete log")


def _of_pieces(bucket: Bucket, run: Run, name: str) -> BucketLog | None:
    """The log as far as it was uploaded during the run."""
    pieces = [*_pieces(bucket, run, name)]
    if not pieces:
        return None
    text = b"".join(live_logs.joined(pieces)).decode(errors="replace")
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(piece.at for piece, _ in pieces)))
    return BucketLog(text, f"{_place(bucket, run)}: the log until {until} UTC, as it was uploaded")


def _pieces(bucket: Bucket, run: Run, name: str) -> Iterator[tuple[Piece, bytes]]:
    for object_name in _listed(bucket, run, f"{name}."):
        key = f"runs/{run.run_id}/{live_logs.FOLDER}/{object_name}"
        if content := bucket.read(key, HEAD + 1 + PIECE):  # an empty object is not a piece
            head, _, data = content.partition(b"\n")
            yield parsed(Piece, head[:HEAD], "a piece of a log"), data


def _listed(bucket: Bucket, run: Run, begin: str = "") -> list[str]:
    """The names of pieces that start with `begin`; ignores objects with other names."""
    folder = f"runs/{run.run_id}/{live_logs.FOLDER}/"
    names = (
        item.key.removeprefix(folder)
        for page in islice(bucket.store.objects(folder + begin), PAGES)
        for item in page
    )
    return [name for name in names if OBJECT.fullmatch(name)]


def _missing(bucket: Bucket, run: Run, name: str) -> UsageError:
    manifest = bucket.manifest(run.run_id)
    logs = [entry.path for entry in manifest.files] if manifest else []
    names = {match[1] for path in logs if (match := LOG.fullmatch(path))}
    names |= {piece.rpartition(".")[0] for piece in _listed(bucket, run)}
    choices = ", ".join(sorted(name.removeprefix("rank-") for name in names)) or "none"
    return UsageError(f"{_place(bucket, run)} has no log {name}; choices: {choices}")


def _place(bucket: Bucket, run: Run) -> str:
    return f"{bucket.store.url}/runs/{run.run_id}"
