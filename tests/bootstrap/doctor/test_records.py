"""`fab doctor` after an upgrade: what 0.1.0 recorded is read; what a newer one wrote is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import CASES
from standins.pulumi_command import PulumiCommand, exported, on_aws

from bootstrap.doctor import doctor, records
from bootstrap.inventory import local_state
from railhead.documents.doctor import Check
from railhead.installation import UPGRADE

RECORDED = CASES / "recorded/0.1.0"
PLACES = {
    "cluster-aws": "clusters/aws-g4dn/cluster.json",
    "run-record": "clusters/aws-g4dn/runs/20261121-112656-c507.json",
    "stack-record": "stacks/1234abcd.json",
    "deployed": "deployed/digits.json",
}


def put(name: str, change: Any = None) -> Path:
    """Put a record of 0.1.0 in its place in this home, changed."""
    path = local_state.home() / PLACES[name]
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads((RECORDED / f"{name}.json").read_text())
    path.write_text(json.dumps(change(document) if change else document))
    return path


def found() -> tuple[str, list[Check]]:
    first, *others = records.checks()
    return first.evidence, others


def test_what_0_1_0_recorded_is_read() -> None:
    assert found() == ("of this and earlier versions: none", [])
    for name in PLACES:
        put(name)
    text = "of this and earlier versions: 1 cluster, 1 run, 1 stack, 1 endpoint"
    assert found() == (text, [])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cluster-aws", lambda document: {**document, "schema": 2}),
        ("run-record", lambda record: {**record, "document": {**record["document"], "schema": 99}}),
    ],
)
def test_what_a_newer_one_recorded_needs_an_upgrade(name: str, change: Any) -> None:
    path = put(name, change)
    assert found()[1] == [Check("records", "warns", f"{path} is of a newer Railhead", UPGRADE)]


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", "[" * 100_000])
@pytest.mark.parametrize("name", PLACES)
def test_a_damaged_one_is_named_with_its_path(name: str, text: str) -> None:
    path = put(name)
    path.write_text(text)
    (check,) = found()[1]
    assert check.state == "warns" and f"{path} is damaged" in check.evidence
    assert str(path) in check.next


@pytest.mark.parametrize(("schema", "states"), [(1, []), (2, ["blocks"])])
def test_a_stack_of_a_newer_version_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: int, states: list[str]
) -> None:
    document = {**json.loads((RECORDED / "cluster-aws.json").read_text()), "schema": schema}
    command = PulumiCommand(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{command.folder}:/usr/bin:/bin")
    command.answers(stack_export=exported(*on_aws("i-1", document=document)))
    checks = [*doctor._output("dev")]
    assert [check.state for check in checks] == states
    assert [check.next for check in checks] == [UPGRADE for _ in states]


def test_many_are_counted() -> None:
    folder = put("stack-record").parent
    for number in range(20):
        (folder / f"{number}.json").write_text("")
    others = found()[1]
    assert len(others) == records.SHOWN + 1 and others[-1].evidence == "15 more are not read"
