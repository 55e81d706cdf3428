"""Run documents for tests: one training on one host, with changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from places import CASES

from bootstrap.inventory import local_state
from railhead.documents.codec import decode, encode
from railhead.documents.runs.run import BuiltIn, Program, RunDocument, RunHost
from railhead.documents.runs.run_record import GivenOptions, RunRecord

GOLDEN = CASES / "documents/run-training.json"
RUN = replace(
    decode(RunDocument, json.loads(GOLDEN.read_text())),
    run_id="r1",
    cluster="c",
    program=BuiltIn("training", {}),
    hosts=(RunHost("h1", "10.0.0.1", None, 1),),
    size=1,
    max_hours=None,
    stop=None,
    bucket=None,
)

HOST = encode(RUN.hosts[0])


def run_document(**changes: Any) -> RunDocument:
    """The run `r1` of the cluster `c`, with other values of some keys."""
    return replace(RUN, **changes)


def run_json(**changes: Any) -> dict[str, Any]:
    """The same as JSON, also with values that are not valid; hosts get the keys that they lack."""
    if isinstance(hosts := changes.get("hosts"), list):
        changes["hosts"] = [{**HOST, **host} for host in hosts if isinstance(host, dict)]
    return {**encode(RUN), **changes}


def settings_of(program: Program) -> Mapping[str, Any]:
    """The settings of a program that is the built-in training."""
    assert isinstance(program, BuiltIn)
    return program.settings


def record_run(
    results: Path, document: RunDocument = RUN, given: GivenOptions | None = None
) -> None:
    """Record a run with its document and its options, as `fab train` does."""
    record = RunRecord(
        document.run_id, document.cluster, str(results), encode(document), encode(given)
    )
    local_state.save_run(record)
