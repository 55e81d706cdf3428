"""Runs that another computer started: they are on the hosts and in the bucket, but not recorded
here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from railhead.documents.codec import encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.run_record import RunRecord

from ..clouds.bucket import Bucket
from ..clouds.storage import NoBucket
from ..inventory import local_state
from ..inventory.files import RUN_ID
from ..inventory.hosts import Inventory
from ..ssh.connect import attempts
from ..ssh.session import Session
from ..untrusted.run_files import read_run_document
from ..untrusted.unpack import Hostile
from . import takeover
from .run import Run

# Folders with a document: a run without one has not been started yet.
LIST = """for f in "$HOME"/.railhead/runs/*/run.json; do
  d=${f%/run.json}; [ -e "$d/takeover.json" ] && t=" taken over" || t=
  echo "${d##*/}$t"
done"""
Listed = Mapping[str, bool]  # run ids of a host; True: the host has taken the run over
DOCUMENT = 1_000_000  # bytes of a run document in a bucket
PAGES = 1000  # of a list, with 1,000 objects each


@dataclass(frozen=True)
class Elsewhere:
    """A run that is not recorded here, and its document if it is known."""

    run_id: str
    document: RunDocument | None = None

    @property
    def run(self) -> Run:
        """The run; its results go to the working directory."""
        hosts = tuple(host.name for host in self.document.hosts) if self.document else ()
        standby = takeover.standby_in(self.document)
        return Run(self.run_id, Path.cwd() / "results" / self.run_id, hosts, standby)

    def record(self, inventory: Inventory) -> Run:
        """Record the run and its hosts here, so that every command can find it."""
        document = encode(self.document) if self.document else None
        local_state.save_cluster(inventory)
        local_state.save_run(
            RunRecord(self.run_id, inventory.name, str(self.run.results), document, elsewhere=True)
        )
        return self.run


def on_hosts(sessions: Mapping[str, Session], run_id: str | None) -> Elsewhere | None:
    """A run in the folders of these hosts, by default the newest one; None if they have none.

    A host that does not answer counts as having no runs.
    """
    listed, _ = attempts(sessions, lambda session: read_list(session.shell(LIST)[0]))
    return in_lists(sessions, listed, run_id)


def in_lists(
    sessions: Mapping[str, Session],
    listed: Mapping[str, Listed],
    run_id: str | None,
    known: str = "",
) -> Elsewhere | None:
    """As `on_hosts`, from the lists of the hosts; None if they have no run later than `known`. If a
    host has taken the run over, the document comes from it: other hosts may have an earlier one."""
    newest = max((one for runs in listed.values() for one in runs), default=None)
    wanted = run_id or newest
    holders = [name for name, runs in listed.items() if wanted in runs]
    if wanted is None or wanted <= known or not holders:
        return None
    leaders = [name for name in holders if listed[name][wanted]]
    return Elsewhere(wanted, _document(sessions[[*leaders, *holders][0]], wanted))


def read_list(lines: Sequence[str]) -> Listed:
    """The output of LIST on a host. Names that cannot be run ids are ignored."""
    fields = (line.partition(" ") for line in lines)
    return {run_id: bool(taken) for run_id, taken, _ in fields if RUN_ID.fullmatch(run_id)}


def _document(session: Session, run_id: str) -> RunDocument | None:
    """run.json of a run on a host; None if it is not valid."""
    lines, code = session.shell(f'cat "$HOME/.railhead/runs/{run_id}/run.json"')
    return None if code else _parsed("\n".join(lines), run_id)


def in_bucket(bucket: Bucket, run_id: str | None) -> Elsewhere | None:
    """A run in a bucket, by default the newest one; None if it has none."""
    prefix = f"runs/{run_id}/" if run_id else "runs/"
    pages = islice(bucket.store.objects(prefix), PAGES)
    try:
        names = {item.key.split("/")[1] for page in pages for item in page}
    except NoBucket:
        return None
    newest = max(filter(RUN_ID.fullmatch, names), default=None)
    if newest is None:
        return None
    data = bucket.read(f"runs/{newest}/run.json", DOCUMENT)
    return Elsewhere(newest, _parsed((data or b"").decode(errors="replace"), newest))


def _parsed(text: str, run_id: str) -> RunDocument | None:
    try:
        document = read_run_document(text)
    except Hostile:
        return None
    return document if document.run_id == run_id else None
