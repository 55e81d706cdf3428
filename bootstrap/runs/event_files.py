"""Fetches the metrics and TensorBoard files of a run, during the run or after it."""

from __future__ import annotations

from dataclasses import field
from fnmatch import fnmatch
from itertools import groupby
from pathlib import PurePosixPath

from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import home_name

from ..clouds.bucket import Bucket
from ..errors import Command, RailheadError
from ..inventory.files import refuse_too_much
from ..ssh.session import Session
from ..untrusted import unpack
from . import results
from .run import Run

METRICS = "results/metrics.jsonl"
EVENTS, PROFILES = "*tfevents*", "*.xplane.pb"
SHOWN = [f"{place}/**/{name}" for place in ("results", "work") for name in (EVENTS, PROFILES)]
PATTERNS = (METRICS, *SHOWN)
LIMIT = 2_000_000_000  # bytes of all these files


@dataclass
class HostEvents:
    """The files on the chief; only those that have grown are fetched again."""

    run: Run
    sizes: dict[str, int] = field(default_factory=dict)

    def bring(self, chief: Session) -> None:
        """Fetch new data into the results, and update the events of metrics.jsonl."""
        sizes = dict(unpack.pairs(chief.sizes(self.run.folder, PATTERNS)))
        changed = [path for path, size in sizes.items() if size != self.sizes.get(path)]
        if not changed:
            return
        with unpack.stage(self.run.results) as stage:
            packed, files = stage / "packed", stage / "files"
            patterns = [unpack.literal(path) for path in changed]
            chief.get(self.run.folder, patterns, packed, limit=LIMIT)
            for path in unpack.unpack(packed, files, LIMIT):
                unpack.place(unpack.local_path(files, path), self.run.results, home_name(path))
            results.draw(stage, self.run)
        self.sizes |= {path: sizes[path] for path in changed}


def bring_from_bucket(bucket: Bucket, run: Run) -> None:
    """Fetch the files of a run from the bucket: from its results, or the parts uploaded during the
    run."""
    with unpack.stage(run.results) as stage:
        if manifest := bucket.manifest(run.run_id):
            wanted = [entry for entry in manifest.files if _is_shown(entry.path)]
            refuse_too_much(sum(entry.bytes for entry in wanted), stage, "the events of the run")
            for number, entry in enumerate(wanted):
                key = f"runs/{run.run_id}/{entry.home}"
                try:
                    bucket.get(key, stage / f"{number}", entry.bytes)
                except KeyError:
                    raise RailheadError(
                        f"the manifest of run {run.run_id} in the bucket lists {key}, which is not"
                        " in the bucket",
                        hint=Command("fetch", run=run.run_id),
                    ) from None
                unpack.place(stage / f"{number}", run.results, entry.home)
        else:
            _join_pieces(bucket, run)
        results.draw(stage, run)


def _is_shown(path: str) -> bool:
    name = PurePosixPath(path).name
    return path == METRICS or fnmatch(name, EVENTS) or fnmatch(name, PROFILES)


def _join_pieces(bucket: Bucket, run: Run) -> None:
    """Join the parts NAME.OFFSET of each file."""
    prefix = f"runs/{run.run_id}/live/"
    objects = [item for page in bucket.store.objects(prefix) for item in page]
    keys = sorted(item.key for item in objects)
    with unpack.stage(run.results) as stage:
        refuse_too_much(sum(item.size for item in objects), stage, "the events of the run")
        for number, (name, pieces) in enumerate(groupby(keys, lambda key: key[:-13])):
            path = stage / f"{number}"
            with unpack.new_file(path) as file:
                for key in pieces:
                    file.write(bucket.read(key) or b"")
            unpack.place(path, run.results, unpack.checked(name.removeprefix(prefix)))
