"""The local stack without an engine: its document, and what a host's provider decides.

tests/engine/test_local.py runs it on the real engine.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import CASES, ROOT

from bootstrap.clouds.local import cluster
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import parse_hosts
from railhead.documents.codec import encode
from stacks import outputs
from stacks.config import settings
from stacks.config.settings import ClusterConfig
from stacks.local import Sshd, document

GOLDEN = CASES / "documents" / "cluster-local.json"
CONFIG = ClusterConfig("local", "demo", 2, "ann", 8.0)
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIB5pCFjpzH4qO6hFAT8JjnLtVmWjmyXzV9oE0iCk3WpX"
INPUTS = {"cluster": "demo", "name": "h1", "running": True}


def facts_of(golden: dict[str, Any]) -> list[dict[str, Any]]:
    """What the resources know, as Pulumi hands it over: every number a float."""
    keys = ("name", "address", "host_key", "stop")
    return [
        {**{key: host[key] for key in keys}, **golden["ssh"], "port": float(host["port"])}
        for host in golden["hosts"]
    ]


def test_the_golden_document_is_what_the_stack_writes() -> None:
    golden = json.loads(GOLDEN.read_text())
    written = encode(document(CONFIG, facts_of(golden)))
    assert written == golden
    assert json.dumps(written, sort_keys=True) == json.dumps(golden, sort_keys=True)  # no floats
    assert [host.port for host in from_document(written).hosts] == [40022, 40023]


def test_no_host_of_this_machine_has_a_clouds_power_off() -> None:
    golden = json.loads(GOLDEN.read_text())
    for host in document(CONFIG, facts_of(golden)).hosts:
        assert host.stop and not {*host.stop} & {*outputs.POWER_OFF}
    without = [{**host, "stop": None} for host in facts_of(golden)]
    with pytest.raises(TypeError):
        document(CONFIG, without)


@pytest.mark.parametrize(
    ("olds", "changes", "replaces"),
    [
        ({}, False, []),
        ({"running": False}, True, []),
        ({"port": 1.0, "host_key": "other"}, False, []),
        ({"cluster": "other"}, True, ["cluster"]),
        ({"name": "h2", "running": False}, True, ["name"]),
    ],
)
def test_a_dead_host_is_started_and_another_is_made_anew(
    olds: dict[str, Any], changes: bool, replaces: list[str]
) -> None:
    diff = Sshd().diff("demo/h1", {**INPUTS, **olds}, INPUTS)
    assert (diff.changes, diff.replaces) == (changes, replaces)


def test_what_is_read_shows_a_dead_host_and_a_missing_one() -> None:
    host = cluster.start("demo", 1).chief
    cluster.stop("demo")
    read = Sshd().read("demo/h1", {**INPUTS, "port": 4})
    assert read.id == "demo/h1"
    assert read.outs == {**INPUTS, "running": False, "address": host.address, "port": host.port}
    cluster.remove("demo", ["h1"])
    assert not Sshd().read("demo/h1", dict(INPUTS)).id


def test_a_refusal_is_a_failed_check_and_not_an_error() -> None:
    local_state.save_cluster(replace(parse_hosts("a"), name="demo"))
    (failure,) = Sshd().check({}, dict(INPUTS)).failures
    assert "cluster 'demo' is ad-hoc hosts, not of this computer" in failure.reason


def test_only_the_exit_code_tells_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "nonsense")  # Python says so on stderr, and goes on
    assert not Sshd().check({}, INPUTS).failures
    monkeypatch.setattr(sys, "executable", "/bin/false")  # it says nothing
    (failure,) = Sshd().check({}, INPUTS).failures
    assert "/bin/false" in failure.reason and "failed with exit code 1" in failure.reason


@pytest.mark.parametrize("sample", ["local", "aws-p3", "aws-g4dn", "gcp-t4"])
def test_a_sample_lacks_only_what_is_a_persons_own(sample: str, home: Path) -> None:
    text = (ROOT / f"Pulumi.{sample}.yaml").read_text()
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    pairs = [line.removeprefix("railhead:").partition(": ") for line in lines]
    values = {key: value.strip('"') for key, _, value in pairs}
    assert "secure:" not in text and "encryptionsalt" not in text
    config = settings.read({**values, **own_values(values["cloud"], home)}, stack=sample)
    assert (config.name, config.count) == (sample, 2)


def own_values(cloud: str, home: Path) -> dict[str, str]:
    """What each person sets: their key, address and project."""
    if cloud == "local":
        return {}
    (home / "id.pub").write_text("ssh-ed25519 " + KEY + " ann\n")
    mine = {"public_key_file": str(home / "id.pub"), "ssh_cidrs": "203.0.113.7/32"}
    return {**mine, "project": "my-project-123"} if cloud == "gcp" else mine
