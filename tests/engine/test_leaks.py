"""`fab leaks` and `fab stop --all` on the real engine and moto: a stack lives, then it is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from engine.aws import OnAws, few_regions
from standins.aws.whole_cluster import tags, whole_cluster

BOBS = "bbbbbbbbbbbb"


@pytest.fixture
def two_regions() -> Iterator[None]:
    with few_regions(("us-east-1", "us-west-2")):
        yield


def rows(aws: OnAws, code: int, *args: str) -> list[dict[str, Any]]:
    """What `fab leaks --json` lists."""
    done = aws.stack.fab("leaks", "--owner", "ann", "--json", *args).ended(code)
    start = done.text.index("{")
    report, _ = json.JSONDecoder().raw_decode(done.text[start:])
    resources: list[dict[str, Any]] = report["resources"]
    return resources


def kinds(listed: list[dict[str, Any]], status: str) -> set[str]:
    return {row["kind"] for row in listed if row["status"] == status}


def test_a_stack_lives_until_its_state_is_lost_and_then_leaks(
    aws: OnAws, two_regions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**aws.cloud.env, "NO_GCE_CHECK": "true"}.items():
        monkeypatch.setenv(name, value)
    bobs = whole_cluster(tags("g4dn", "bob", BOBS), "us-west-2")
    aws.stack.config(count=1)
    aws.stack.up().ended(0)
    listed = rows(aws, 0)
    assert kinds(listed, "living") == {
        "machine", "disk", "schedule", "role", "bucket", "network", "subnet", "internet gateway",
        "route table", "security group", "endpoint", "key pair", "placement group",
    }  # fmt: skip
    assert {row["stack"] for row in listed if row["status"] == "living"} == {"g4dn"}
    assert {row["id"] for row in listed if row["status"] == "others"} == {*bobs.values()}

    aws.stack.fab("stop", "--all", "--owner", "ann").ended(0, "stack g4dn: g4dn-1 stopped")
    assert not aws.running()

    aws.stack.run("stack", "rm", "--force", "--yes", aws.stack.name).ended(0)
    leaked = {row["id"] for row in rows(aws, 1) if row["status"] == "leaked"}
    assert {*aws.existing()} < leaked
    done = aws.stack.fab("leaks", "--owner", "ann", "--end", "--yes").ended(0)
    assert not aws.existing() and BOBS in done.text
    mine = {row["id"]: row for row in rows(aws, 0)}
    assert mine.keys() == {*bobs.values()}
