"""The documents of a run's folder: those that earlier versions wrote, and their description."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from bootstrap.untrusted.decode import parsed
from railhead.documents.codec import encode
from railhead.documents.manifest import Entry, Manifest, Skipped, Uploads
from railhead.documents.result import Culprit, NotSwept, Result, Swept
from railhead.documents.state import Machines, RunState

TESTS = Path(__file__).parents[1]
ARCHITECTURE = (TESTS.parent / "docs/architecture.md").read_text()
DOCUMENTS: dict[str, type[Any]] = {
    "result-failed": Result, "state-failed": RunState, "manifest": Manifest, "uploads": Uploads,
}  # fmt: skip


def kept(name: str) -> Any:
    return parsed(DOCUMENTS[name], (TESTS / f"cases/documents/{name}.json").read_text(), name)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_read_is_written_again(name: str) -> None:
    before = json.loads((TESTS / f"cases/documents/{name}.json").read_text())
    before.get("machines", {}).pop("shipped", None)  # nobody reads it
    assert encode(kept(name)) == before


def test_a_result_is_read() -> None:
    found = kept("result-failed")
    assert found.culprit == Culprit(1, "b", ("last words",), signal=9)
    assert found.swept == {"a": Swept(0, ()), "b": NotSwept("no answer within 20 seconds")}
    state = kept("state-failed")
    assert state.has_ended and state.machines.stopped == {"b": "ok", "a": "has no stop command"}
    assert [entry.home for entry in kept("manifest").files] == ["run.json", "result.json"]


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
