"""`fab start`, `stop` and what starts machines, as typed: real hosts, a stand-in for Pulumi."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from standins.forks import FAB_OF_A_STACK, forked_fab

from bootstrap.clouds.local import cluster
from bootstrap.inventory import local_state
from bootstrap.inventory.document import to_document
from railhead.documents.runs.run_record import RunRecord


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a person with two local hosts in a stack, which is the selected one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    inventory = cluster.start("dev", 2)
    document = to_document(inventory)
    (tmp_path / "out.json").write_text(json.dumps(document))
    root = {"type": "pulumi:pulumi:Stack", "urn": "urn::dev", "outputs": {"cluster": document}}
    (tmp_path / "state.json").write_text(json.dumps({"deployment": {"resources": [root]}}))
    script = f"#!/bin/sh\ncase $2 in output) cat {tmp_path}/out.json;;"
    script += f" export) cat {tmp_path}/state.json;; *) echo dev;; esac\n"
    (tmp_path / "pulumi").write_text(script)
    (tmp_path / "pulumi").chmod(0o755)
    yield {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    cluster.stop("dev")


def fab(shell: dict[str, str], *args: str) -> tuple[int, str]:
    words = ("-r", str(ROOT), *args)
    process = forked_fab(Path.cwd(), *words, program=FAB_OF_A_STACK, **shell)
    return process.returncode, process.stdout + process.stderr


def test_stop_and_start_as_they_are_typed(shell: dict[str, str]) -> None:
    code, out = fab(shell, "status")
    assert code == 0, out
    assert out.startswith("dev (local, stack dev): ")
    assert "[h1] running (/proc" in out
    code, out = fab(shell, "stop", "--stack", "dev")
    assert code == 0, out
    assert "[h2] stopped (/proc" in out
    code, out = fab(shell, "train", "--preset", "smoke")
    assert code == 2, out
    assert "next: fab start --stack dev   # or: fab train --start --stack dev" in out
    code, out = fab(shell, "deploy")
    assert (code, "no run is recorded for dev" in out) == (2, True), out
    assert not cluster.read("dev")["h1"].running, "started for nothing"
    code, out = fab(shell, "start")
    assert code == 0, out
    assert cluster.read("dev")["h2"].running
    code, out = fab(shell, "exec", "--cmd", "echo in")
    assert (code, out.count("] in\n")) == (0, 2), out


@pytest.mark.parametrize("task", ["deploy", "notebook"])
def test_what_serves_on_a_stack_starts_its_chief(shell: dict[str, str], task: str) -> None:
    local_state.save_run(RunRecord("r1", "dev", str(Path.cwd() / "results/r1")))
    assert fab(shell, "stop", "--stack", "dev")[0] == 0
    code, out = fab(shell, task)
    assert (code, "starting h1\n" in out) == (2, True), out
    assert "next: fab bootstrap --launcher tensorflow --stack dev" in out, "it has no runtime"
    assert cluster.read("dev")["h1"].running
    assert local_state.load_cluster("dev").names == ("h1", "h2")


def test_machines_that_were_only_named_are_neither_started_nor_stopped(
    shell: dict[str, str],
) -> None:
    for task in ("start", "stop"):
        code, out = fab(shell, task, "--hosts", "a,b")
        assert code == 2
        assert "are ad hoc (given by --hosts" in out
    code, out = fab(shell, "stop", "--hosts", "a,b", "--stack", "dev")
    assert (code, "give one of them" in out) == (2, True)
    code, out = fab(shell, "extend")
    assert (code, "--hours is missing" in out) == (2, True)
