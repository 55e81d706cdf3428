"""Prevents a host that has lost the lease of a run from publishing anything of the run.

Every upload checks the lease first. The two manifests that make uploads valid,
checkpoints/manifest.json and the results' manifest.json, are written conditionally, because a host
may be suspended between the check and the upload.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.manifest import UploadedCheckpoints
from railhead.documents.runs.takeover import Taken, Term

from ..base import json_file
from ..base.programs import TAKEOVER
from ..buckets.folder import BucketFolder
from ..buckets.objects import WriteInProgress
from ..run import held
from .terms import Terms

CHECKPOINTS = "checkpoints/manifest.json"
# To write the list: another host may change it, or an earlier try of this host's request.
TRIES = 5


class LeaseLost(Exception):
    """This host may not publish anything of a run."""

    def __init__(self) -> None:
        super().__init__("this host has lost the lease of the run: it uploads nothing more")


@dataclass(frozen=True)
class Fence:
    """The term in which a host publishes files of a run's folder."""

    folder: str
    term: Term

    def is_restored(self) -> bool:
        """Whether the run's folder has the run's checkpoints. False on a host that took the run
        over but could not restore it: its files must not replace the bucket's."""
        taken = json_file.if_any(os.path.join(self.folder, TAKEOVER), Taken)
        return taken is None or not taken.why

    def check(self, bucket: BucketFolder) -> None:
        """Raise LeaseLost unless this host holds the lease."""
        if not held.is_held(self.folder) or Terms(bucket).is_over(self.term):
            raise LeaseLost()

    def create(self, bucket: BucketFolder, path: str, name: str) -> None:
        """Upload the file that completes the results: first this host makes its term the last one.
        From then on no other host takes the run over, even if the lease ends during the upload."""
        self.check(bucket)
        if not Terms(bucket).close(self.term):
            raise LeaseLost()
        key = bucket.uri.key(name)
        with open(path, "rb") as file:
            data = file.read()
        if not bucket.objects.create(key, data):
            stored = bucket.objects.look(key)
            if stored is None or stored.data != data:
                raise LeaseLost()

    def write_checkpoints(self, bucket: BucketFolder, document: UploadedCheckpoints) -> None:
        """Write the list of the checkpoints in the bucket."""
        self.check(bucket)
        rewrite_checkpoints(bucket, self.term.number, lambda _: document)


def fence_of(folder: str) -> Fence | None:
    """The fence of a run's folder; None for a run without a lease."""
    term = held.term_of(folder)
    return Fence(folder, term) if term else None


Rewrite = Callable[[UploadedCheckpoints], UploadedCheckpoints]


def rewrite_checkpoints(
    bucket: BucketFolder, term: int, rewrite: Rewrite = lambda before: before
) -> UploadedCheckpoints:
    """Write the bucket's list of checkpoints in a term; `rewrite` derives it from the present list,
    or an empty one. Afterwards, the host of an earlier term can no longer write it. LeaseLost: a
    host of a later term has written it. OSError: it changes all the time. ValueError: it is
    damaged."""
    key = bucket.uri.key(CHECKPOINTS)
    for _ in range(TRIES):
        stored = bucket.objects.look(key)
        before = UploadedCheckpoints(())
        if stored:
            before = decode(UploadedCheckpoints, json.loads(stored.data), what=CHECKPOINTS)
        if before.term > term:
            raise LeaseLost()
        document = replace(rewrite(before), term=term)
        data = json.dumps(encode(document), indent=1).encode()
        with contextlib.suppress(WriteInProgress):
            if stored is None:
                version = bucket.objects.create(key, data, short_lived=True)
            else:
                version = bucket.objects.replace(key, data, stored.version, short_lived=True)
            if version:
                return document
    raise OSError(f"{CHECKPOINTS} was changed by others during each of {TRIES} tries")
