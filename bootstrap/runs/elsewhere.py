"""Runs that another computer started: hosts and bucket know them, the records here do not."""

from __future__ import annotations

from collections.abc import Mapping
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

# Those with a document: a folder without one is of a run that has not been started yet.
LIST = 'for f in "$HOME"/.railhead/runs/*/run.json; do d=${f%/run.json}; echo "${d##*/}"; done'
DOCUMENT = 1_000_000  # bytes of a run document in a bucket
PAGES = 1000  # of a thousand objects each, that are listed


@dataclass(frozen=True)
class Elsewhere:
    """A run that is not recorded here, and its document where it is known."""

    run_id: str
    document: RunDocument | None = None

    @property
    def run(self) -> Run:
        """The run; its results go to the working directory."""
        hosts = tuple(host.name for host in self.document.hosts) if self.document else ()
        standby = takeover.standby_in(self.document)
        return Run(self.run_id, Path.cwd() / "results" / self.run_id, hosts, standby)

    def record(self, inventory: Inventory) -> Run:
        """Record the run and its hosts here: from now on every command knows it."""
        document = encode(self.document) if self.document else None
        local_state.save_cluster(inventory)
        local_state.save_run(
            RunRecord(self.run_id, inventory.name, str(self.run.results), document, elsewhere=True)
        )
        return self.run


def on_hosts(sessions: Mapping[str, Session], run_id: str | None) -> Elsewhere | None:
    """A run in the folders of these hosts, by default the newest one; None if they have none. Its
    document is that of the host that has taken it over, if one has: the others may have an earlier
    one.

    A host that does not answer counts as one without runs.
    """
    listed, _ = attempts(sessions, _run_ids)
    newest = max((one for ids in listed.values() for one in ids), default=None)
    wanted = run_id or newest
    holders = {name: sessions[name] for name, ids in listed.items() if wanted in ids}
    if wanted is None or not holders:
        return None
    run = Elsewhere(wanted).run
    answers, _ = attempts(holders, lambda session: takeover.is_led_by(session, run))
    leaders = [name for name in holders if answers.get(name)]
    return Elsewhere(wanted, _document(holders[[*leaders, *holders][0]], wanted))


def _run_ids(session: Session) -> list[str]:
    lines, _ = session.shell(LIST)
    return [line for line in lines if RUN_ID.fullmatch(line)]


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
