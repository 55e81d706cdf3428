"""`--json` and `--quiet`: what is on stdout, and that it is what its JSON Schema says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from places import ROOT
from standins.forks import forked_fab
from standins.runs.run_documents import record_run, run_document

from bootstrap.console import output
from bootstrap.errors import Command, RailheadError, UsageError
from bootstrap.health.checks import Finding
from bootstrap.health.run import note_outcome
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.lifecycle.receipt import Receipt, check
from bootstrap.runs.follow import RunConnection
from bootstrap.runs.run import Run
from bootstrap.workflows import attach, evaluate
from railhead.documents.codec import encode
from railhead.documents.outputs import OUTPUTS, ReceiptLine, RunOutput
from railhead.documents.runs.run import Script
from railhead.documents.runs.run_record import GivenOptions


def valid(task: str, document: Any) -> Any:
    schema = json.loads((ROOT / f"docs/schemas/{task}.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


def test_each_document_has_a_schema_that_refuses_other_keys() -> None:
    assert {path.stem for path in (ROOT / "docs/schemas").iterdir()} == {*OUTPUTS}
    run = encode(RunOutput(run_id="r1", state="succeeded", results="/r"))
    valid("train", run)
    for wrong in ({**run, "more": 1}, {**run, "state": "odd"}, {**run, "size": "2"}, {"schema": 1}):
        with pytest.raises(jsonschema.ValidationError):
            valid("train", wrong)


def test_a_status_that_reaches_no_host_is_a_document_and_exit_4(tmp_path: Path) -> None:
    done = forked_fab(tmp_path, "status", "--hosts", "127.0.0.1:9", "--json")
    (host,) = valid("status", json.loads(done.stdout))["hosts"]
    assert done.returncode == 4 and not host["reached"] and "refused" in host["reason"]


@pytest.mark.parametrize(
    ("words", "error", "code"),
    [
        (("train", "--preset", "smok"), "unknown preset 'smok'.", 2),
        (("train", "--hosts", "127.0.0.1:9", "--retries", "x"), "--retries: 'x'", 2),
        (("train", "--hosts", "127.0.0.1:9"), "1 of 1 hosts cannot be reached", 4),
        (("evaluate", "--quiet"), "no run was started from", 2),
        (("plan", "--hosts", "127.0.0.1:9"), "1 of 1 hosts cannot be reached", 4),
        (("train", "--bogus"), "fab train has no option --bogus", 2),
        (("stauts",), "fab has no task stauts", 2),
        (("train", "--retries"), "fab train: argument --retries: expected one argument", 2),
    ],
)
def test_an_error_is_one_document(
    tmp_path: Path, words: tuple[str, ...], error: str, code: int
) -> None:
    done = forked_fab(tmp_path, *words, "--json")
    document = valid("error", json.loads(done.stdout))
    assert document["error"].startswith(error)
    assert (document["exit_code"], done.returncode) == (code, code)
    assert str(document["next"] or "") in done.stderr


def test_a_document_that_says_what_is_wrong_is_the_only_one(tmp_path: Path) -> None:
    done = forked_fab(tmp_path, "doctor", "--stack", "a b", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["checks"]


def test_the_lines_before_a_training_are_not_in_its_document(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import keras\n")
    (tmp_path / "railhead.toml").write_text("[one]\nscript = 'train.py'\n")
    words = ("train", "one", "--retries", "2", "--hosts", "127.0.0.1:9", "--json")
    done, dry = forked_fab(tmp_path, *words), forked_fab(tmp_path, "--dry", *words)
    for process in (done, dry):
        assert process.returncode == json.loads(process.stdout)["exit_code"] == 4
    assert "--retries 2: until the script" in done.stderr and "job one of" in dry.stderr


@pytest.mark.parametrize(("minimum", "code"), [("0.5", 0), ("0.95", 3)])
def test_the_evaluation_of_a_script_is_a_document_also_below_its_threshold(
    tmp_path: Path, home: Path, minimum: str, code: int
) -> None:
    hosts = parse_hosts("h1")
    local_state.save_cluster(hosts)
    document = run_document(program=Script("script", "train.py"), cluster=hosts.name)
    record_run(
        tmp_path / "results/r1", document, GivenOptions(str(tmp_path), {"script": "train.py"})
    )
    (tmp_path / "results/r1").mkdir(parents=True)
    record = {"kind": "evaluation", "rank": 0, "accuracy": 0.9, "samples": 10}
    (tmp_path / "results/r1/metrics.jsonl").write_text(json.dumps(record) + "\n")
    args = ("evaluate", "--min", f"accuracy={minimum}")
    done = forked_fab(tmp_path, *args, "--json", "r1")
    printed = valid("evaluate", json.loads(done.stdout))
    assert (done.returncode, printed["evaluation"]["passed"]) == (code, code == 0)
    quiet = forked_fab(tmp_path, *args, "-q")
    assert quiet.returncode == code and "accuracy" in quiet.stdout
    (listed,) = valid("runs", json.loads(forked_fab(tmp_path, "runs", "--json").stdout))
    assert listed["run_id"] == "r1"


def test_a_receipt_that_is_not_verified_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    receipt = Receipt("c", "2026-11-26 01:00:00 UTC", (ReceiptLine("h1", "runs", verified=False),))
    with pytest.raises(RailheadError), output.json_output(True):
        check(receipt, Command("teardown"))
    assert valid("teardown", json.loads(capsys.readouterr().out))["verified"] is False


@pytest.mark.parametrize("refused", [None, UsageError("not ready")])
@pytest.mark.parametrize("counts", [True, False])
def test_findings_are_a_document(
    capsys: pytest.CaptureFixture[str], refused: UsageError | None, counts: bool
) -> None:
    with output.json_output(True):
        output.print_lines("for people")
        note_outcome([Finding("h1", "full", Command("prune"), counts)], refused, ["h1", "h2"])
    printed = capsys.readouterr()
    document = valid("health", json.loads(printed.out))
    assert document["healthy"] is (not counts and refused is None)
    assert printed.err == "for people\n"


RUN = Run("r1", Path("/r"))


def test_a_run_that_was_interrupted_or_died_does_not_seem_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = parse_hosts("127.0.0.1:9")
    chief: Any = SimpleNamespace(host=inventory.chief, read=lambda _: None)
    connection = RunConnection(RUN, inventory, chief)

    def interrupted(_: RunConnection) -> None:
        raise KeyboardInterrupt

    def printed(act: Callable[[], object], code: int, task: str = "train") -> Any:
        with pytest.raises(RailheadError) as caught, output.json_output(True):
            output.note_output(attach.output_of(replace(RUN, results=tmp_path), None))
            act()
        assert caught.value.code == code
        return valid(task, json.loads(capsys.readouterr().out))

    def evaluation() -> None:
        evaluate._note_evaluation("r1")
        raise RailheadError("it failed")

    monkeypatch.setattr(attach, "follow", interrupted)
    # No host answers, so that nothing was cancelled.
    assert printed(lambda: attach.follow_started(connection), 130)["state"] == "running"
    monkeypatch.setattr(attach, "_cancel", lambda *_: None)
    assert printed(lambda: attach.follow_started(connection), 130)["state"] == "cancelled"
    assert printed(lambda: attach.judge(connection, None), 1)["state"] == "failed"
    assert printed(evaluation, 1, "evaluate")["state"] == "running"
    (tmp_path / evaluate.FILE).write_text('{"accuracy": 0.5}')
    assert printed(evaluation, 1, "evaluate")["state"] is None


def test_quiet_prints_the_result_and_answers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with output.quiet():
        output.print_lines("progress")
        output.print_result("result")
        with output.json_output(True):
            output.print_lines("progress")
            output.print_result("result")
            output.note_output(RunOutput(run_id="r1", state="running", results="/r"))
    printed = capsys.readouterr()
    first, _, rest = printed.out.partition("\n")
    assert (first, printed.err) == ("result", "result\n"), "stdout has the document alone"
    assert valid("train", json.loads(rest))["run_id"] == "r1"
