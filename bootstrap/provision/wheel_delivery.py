"""Wheels go to one host through its connection, and are taken away once they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bootstrap.console.output import Reporter
from bootstrap.console.text import size
from bootstrap.provision import wheels
from bootstrap.ssh.session import Session

FOLDER = "~/.railhead/wheelhouse"
FOR_UV = ("--offline", "--no-index", "--find-links", FOLDER)
FOR_PIP = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": FOLDER}


@contextmanager
def delivered(session: Session, house: Path, report: Reporter) -> Iterator[None]:
    """What lies in `house` lies in FOLDER on the host meanwhile; `report` hears how far it is.

    After a failure it stays, so that the next time only the rest travels.
    """
    bundles = wheels.each(house)
    whole = size(sum(bundle.total_bytes for bundle in bundles))
    before = 0

    def sent(count: int) -> None:
        report(f"{size(before + count)} of {whole} went through this connection")

    for bundle in bundles:
        session.send_tree(bundle, FOLDER, prune=False, on_sent=sent)
        before += bundle.total_bytes
    yield
    contents = [f"~/.railhead/blobs/{file.sha256}" for bundle in bundles for file in bundle.files]
    session.call("remove", paths=[FOLDER, *contents])
