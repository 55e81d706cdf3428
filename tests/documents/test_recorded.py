"""What 0.1.0 wrote is read by this version: on this computer, on hosts and in buckets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from places import CASES

from bootstrap.inventory.stack_records import StackRecord
from railhead.documents.cluster import ClusterDocument
from railhead.documents.codec import decode, encode
from railhead.documents.runs.evaluation import Evaluation
from railhead.documents.runs.manifest import Manifest, Uploads
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.runs.state import RunState
from railhead.documents.runs.sweep import SweepDocument
from railhead.documents.serving.endpoint import Deployed, EndpointDocument, EndpointState

RECORDED = CASES / "recorded"
# By the first words of a file's name.
KINDS: dict[str, type[Any]] = {
    "cluster": ClusterDocument,
    "deployed": Deployed,
    "endpoint-state": EndpointState,
    "endpoint": EndpointDocument,
    "evaluation": Evaluation,
    "manifest": Manifest,
    "result": Result,
    "run-record": RunRecord,
    "run": RunDocument,
    "stack-record": StackRecord,
    "state": RunState,
    "sweep": SweepDocument,
    "uploads": Uploads,
}
FILES = sorted(RECORDED.glob("*/*.json"))


def kind_of(file: Path) -> type[Any]:
    return next(kind for name, kind in KINDS.items() if file.stem.startswith(name))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_document_of_an_earlier_version_is_read(file: Path) -> None:
    """With each value that it has: nothing of it is lost when it is written again."""
    recorded = json.loads(file.read_text())
    written = json.loads(json.dumps(encode(decode(kind_of(file), recorded))))
    assert {key: written.get(key) for key in recorded} == recorded


def test_each_kind_of_document_is_recorded() -> None:
    assert {kind_of(file) for file in FILES} == {*KINDS.values()}


def test_what_a_version_wrote_is_not_edited_later() -> None:
    """A change of a document needs a new version's files beside these."""
    sums = {
        line.split()[1]: line.split()[0] for line in (RECORDED / "SHA256").read_text().splitlines()
    }
    files = {f"{file.parent.name}/{file.name}": file.read_bytes() for file in FILES}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} == sums
