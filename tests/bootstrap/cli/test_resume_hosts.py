"""`fab train --resume RUN` goes to the hosts of the run, whatever the last command was about."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.forks import forked_fab
from standins.options import program
from standins.runs.run_documents import record_run, run_document

from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.runs.request import read_request


@pytest.mark.parametrize(
    ("words", "host"), [((), "first.invalid"), (("--hosts", "third.invalid"), "third.invalid")]
)
def test_a_resume_is_on_the_hosts_of_its_run_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], host: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    first = parse_hosts("first.invalid", slots=None)
    local_state.save_cluster(first)
    local_state.save_cluster(parse_hosts("last.invalid", slots=None))
    request = read_request(program(script="train.py", launcher="tensorflow"))
    document = run_document(
        cluster=first.name, bundle=request.bundle.digest, program=request.program
    )
    record_run(tmp_path / "results/r1", document, request.record)
    done = forked_fab(tmp_path, "train", "--resume", "r1", *words)
    assert done.returncode == 4, done
    shown = done.stdout + done.stderr
    assert f"(hosts): {host}" in shown and "last.invalid" not in shown
