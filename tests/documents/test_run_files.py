"""The documents of a run's folder: those that earlier versions wrote, and their description."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest
from places import CASES, ROOT
from standins.runs.run_documents import run_document

from bootstrap.untrusted.decode import parsed
from railhead.documents.codec import encode
from railhead.documents.runs.manifest import Entry, Manifest, Skipped, Uploads
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.run import Role, RunHost
from railhead.documents.runs.state import Machines, RunState
from railhead.documents.runs.swept import NotSwept, Swept

ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
DOCUMENTS: dict[str, type[Any]] = {
    "result-failed": Result, "state-failed": RunState, "manifest": Manifest, "uploads": Uploads,
}  # fmt: skip


def kept(name: str) -> Any:
    return parsed(DOCUMENTS[name], (CASES / f"documents/{name}.json").read_text(), name)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_read_is_written_again(name: str) -> None:
    before = json.loads((CASES / f"documents/{name}.json").read_text())
    before.get("machines", {}).pop("shipped", None)  # nobody reads it
    assert encode(kept(name)) == before


def test_a_result_is_read() -> None:
    result = kept("result-failed")
    assert result.culprit == Culprit(1, "b", ("last words",), signal=9)
    assert result.swept == {"a": Swept(0, ()), "b": NotSwept("no answer within 20 seconds")}
    state = kept("state-failed")
    assert state.has_ended and state.machines.stopped == {"b": "ok", "a": "has no stop command"}
    assert [entry.home for entry in kept("manifest").files] == ["run.json", "result.json"]


def test_ranks_fill_the_slots_of_the_hosts_in_order() -> None:
    hosts = tuple(RunHost(f"h{i}", f"10.0.0.{i}", None, slots) for i, slots in enumerate((2, 1, 3)))
    run = run_document(hosts=hosts, size=6)
    assert run.first_ranks == (0, 2, 3)
    assert [run.host_of(rank) for rank in range(run.size)] == [0, 0, 1, 2, 2, 2]


def test_a_rank_has_its_role_of_tf_config_and_without_it_is_a_worker() -> None:
    roles = (Role("ps", 0), Role("chief", 0))
    assert [run_document(roles=roles, size=2).role_of(rank) for rank in (0, 1)] == ["ps", "chief"]
    assert run_document(roles=None).role_of(0) == "worker"


def section(heading: str) -> str:
    return ARCHITECTURE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("heading", "kind"), [("The result", Result)])
def test_the_table_of_a_document_has_each_key_once(heading: str, kind: type[Any]) -> None:
    rows = re.findall(r"^\| (`.*?`) \|", section(heading), re.MULTILINE)
    keys = [key for row in rows for key in re.findall(r"`(\w+)`", row)]
    assert sorted(keys) == sorted(field.name for field in fields(kind))


@pytest.mark.parametrize("kind", [Culprit, Swept, NotSwept, RunState, Machines, Entry, Skipped])
def test_the_keys_of_the_other_documents_are_named(kind: type[Any]) -> None:
    words = set(re.findall(r"`(\w+)`", section("The result")))
    assert {field.name for field in fields(kind)} <= words
