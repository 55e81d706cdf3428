"""The judgement of a run and its records, which a script may have written: never a traceback."""

from __future__ import annotations

import io
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from standins.runs.run_documents import run_json

from bootstrap.console.live import Board
from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.runs.follow import RunConnection, RunLine
from bootstrap.runs.results import attempt_lines, judge, require_writable, trouble_line
from bootstrap.runs.run import Run
from bootstrap.untrusted.records import record
from bootstrap.workflows import attach
from railhead.documents.runs.evaluation import Reported
from railhead.documents.runs.result import Attempt, Culprit, Result
from railhead.documents.runs.swept import NotSwept, Swept

RUN = Run("r1", Path("results/r1"))
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "
UNKNOWN = "the evaluation did not pass"


def ended(evaluation: Any, **changes: Any) -> Result:
    """The result of a run that succeeded, with this evaluation."""
    reported = None if evaluation is None else Reported(evaluation)
    whole = Result(state="succeeded", seconds=12.0, size=2, evaluation=reported)
    return replace(whole, **changes)


@pytest.mark.parametrize(
    "evaluation",
    [
        None,
        {},
        {"accuracy": 0.5},
        {"loss": 0.1, "passed": True},
        {"passed": None},
        {"passed": "no"},
        {"passed": 0, "threshold": 0.9},
        {"accuracy": math.nan, "threshold": [1]},
    ],
)
def test_only_an_evaluation_that_reports_so_is_below_its_threshold(evaluation: Any) -> None:
    assert judge(RUN, ended(evaluation)) == "run r1 succeeded in 12 s on 2 ranks"


@pytest.mark.parametrize(
    ("evaluation", "says"),
    [
        ({"accuracy": 0.5, "threshold": 0.9}, "accuracy 0.5000 is below min_accuracy 0.9"),
        ({"accuracy": "0.5", "threshold": "0.9"}, "accuracy 0.5000 is below min_accuracy 0.9"),
        ({}, f"{UNKNOWN} (without numbers)"),
        ({"accuracy": 0.5}, f"{UNKNOWN} (accuracy 0.5)"),
        ({"threshold": 0.9}, f"{UNKNOWN} (threshold 0.9)"),
        ({"accuracy": None, "threshold": 0.9}, f"{UNKNOWN} (accuracy None, threshold 0.9)"),
        ({"accuracy": math.nan, "threshold": 0.9}, f"{UNKNOWN} (accuracy nan, threshold 0.9)"),
        ({"accuracy": 0.95, "threshold": 0.9}, f"{UNKNOWN} (accuracy 0.95, threshold 0.9)"),
        ({"accuracy": [1], "loss": "\x1b[2J9"}, f"{UNKNOWN} (accuracy [1], loss 9)"),
        ({"failed": ["\x1b[2J" + "x" * 999] * 17}, "; ".join(["x" * 200] * 16)),
    ],
)
def test_an_evaluation_that_has_not_passed_ends_with_3(
    evaluation: dict[str, Any], says: str
) -> None:
    with pytest.raises(BelowThreshold) as error:
        judge(RUN, ended({**evaluation, "passed": False}))
    assert (error.value.code, error.value.message) == (3, says)


def shown(*lines: str, every: float = 0) -> str:
    """What a log shows of these lines of metrics.jsonl."""
    out = io.StringIO()
    with Board(out, ["h1", "h2"], every=every) as board:
        run = RunLine(board)
        for entry in filter(None, map(record, lines)):
            run.show(entry)
    return out.getvalue()


def test_the_line_of_a_run_has_its_carbon_so_far() -> None:
    progress = json.dumps({"kind": "progress", "host": "h1", "loss": 0.5})
    known = json.dumps({"kind": "carbon", "kwh": 0.0312, "gco2e": 13.04})
    assert shown(progress, known, progress).splitlines() == [
        "[run] loss 0.500", "[run] loss 0.500, 0.031 kWh, 13 gCO2e"
    ]  # fmt: skip
    for wrong, says in (
        ({"kwh": 0.5, "gco2e": None}, ", 0.5 kWh"),
        ({"kwh": 0.0043, "gco2e": 1.8}, ", 4.3 Wh, 1.8 gCO2e"),
        ({"kwh": 1e300, "gco2e": -1}, ""),
        ({"kwh": "x", "gco2e": float("nan")}, ""),
    ):
        text = json.dumps({"kind": "carbon", **wrong})
        assert shown(text, progress) == f"[run] loss 0.500{says}\n"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"kind": "message", "host": "h1", "text": "hello"}, "[h1] hello\n"),
        ({"kind": "progress", "host": "h1", "loss": "0.5"}, "[run] loss 0.500\n"),
        ({"kind": "evaluation", "host": "h1"}, "evaluation\n"),
        ({"kind": "epoch", "epoch": None, "loss": 0.5}, "loss 0.500\n"),
        ({"kind": "progress", "host": "h9", "loss": 1}, ""),
        ({"kind": "progress", "host": ["h1"], "loss": 1}, ""),
        ({"kind": "progress", "loss": 1}, ""),
        ({"kind": {}, "host": "h1"}, ""),
        ({"loss": 1}, ""),
        ([1], ""),
        (None, ""),
    ],
)
def test_a_record_is_shown_or_ignored(entry: Any, says: str) -> None:
    assert shown(json.dumps(entry)) == says


def test_a_log_has_every_message_however_fast_they_come() -> None:
    lines = [json.dumps({"kind": "message", "host": "h1", "text": text}) for text in "abc"]
    assert shown(*lines, every=3600) == "[h1] a\n[h1] b\n[h1] c\n"


@pytest.mark.parametrize(
    "line",
    ["", "{", "[" * 100_000, '{"kind": "epoch", "epoch": ' + "1" * 5000 + "}", "\ufffd"],
    ids=["empty", "torn", "deep", "long number", "no text"],
)
def test_a_line_that_is_not_a_record_is_ignored(line: str) -> None:
    after = '{"kind": "progress", "host": "h1", "loss": 1}'
    assert shown(line, after) == "[run] loss 1.000\n"


def test_the_progress_of_a_run_is_that_of_one_rank() -> None:
    both = [
        json.dumps({"kind": "progress", "rank": rank, "host": f"h{rank + 1}", "step": step})
        for step in (1, 2)
        for rank in (1, 0)
    ]
    assert shown(*both) == "[run] step 1\n[run] step 2\n"


@pytest.mark.parametrize(
    ("trouble", "lines"),
    [
        (None, []),
        ("", []),
        (
            "stdout was not written 3 times, first: No space left on device",
            [
                "not everything could be written: "
                "stdout was not written 3 times, first: No space left on device"
            ],
        ),
        ("\x1b[2Jfull", ["not everything could be written: full"]),
    ],
)
def test_files_that_could_not_be_written_are_reported(trouble: Any, lines: list[str]) -> None:
    assert trouble_line(ended(None, trouble=trouble)) == lines


def test_a_result_without_trouble_reports_nothing() -> None:
    assert trouble_line(None) == []


@pytest.mark.parametrize("state", ["succeeded", "cancelled"])
def test_the_end_of_a_run_shows_its_trouble_before_the_judgement(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = Inventory("c", (Host("h1", "10.0.0.1"),))
    result = ended(None, state=state, trouble="disk full")
    with nullcontext() if state == "succeeded" else pytest.raises(RunFailed):
        attach.judge(RunConnection(RUN, inventory, cast(Any, None)), result)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "not everything could be written: disk full"
    assert rest == (["run r1 succeeded in 12 s on 2 ranks"] if state == "succeeded" else [])


PLACE = "~/.railhead/runs/r1/results"
NO_RESULT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "its folder was removed": ({}, ["no longer on h1", "fab status"]),
    "its start was ended": ({"run.json": {}}, ["run r1 is not started", "fab status"]),
    "its supervisor died": (
        {"run.json": {}, "state.json": {"state": "running", "pid": 9, "heartbeat": 1}},
        ["its supervisor died", "fab logs --run r1"],
    ),
    "its supervisor is stopped": (
        {"run.json": {}, "state.json": {"state": "running", "pid": 8, "heartbeat": 1}},
        ["r1 on h1: FROZEN", "kill -CONT 8", "fab attach --run r1"],
    ),
    "the disk is full": (
        {
            "run.json": {},
            "state.json": {
                "state": "succeeded",
                "pid": 9,
                "heartbeat": 1,
                "trouble": "2 writes failed: No space left on device",
            },
        },
        ["run r1 succeeded, but h1", "No space left", f"--cmd 'df -h {PLACE}; df -i {PLACE}'"],
    ),
}


@pytest.mark.parametrize(("files", "says"), NO_RESULT.values(), ids=NO_RESULT)
def test_a_run_without_a_result_says_why_it_has_none(
    files: dict[str, Any], says: list[str]
) -> None:
    host = Host("h1", "10.0.0.1")
    texts = {f"{RUN.folder}/{name}": json.dumps(document) for name, document in files.items()}
    texts["/proc/8/status"] = "Name:\tx\nState:\tT (stopped)\n"
    chief = SimpleNamespace(
        host=host,
        read=lambda path, **_: texts.get(path),
        is_running=lambda pid, *_: f"/proc/{pid}/status" in texts,
    )
    with pytest.raises(RunFailed) as caught:
        attach.judge(RunConnection(RUN, Inventory("c", (host,)), cast(Any, chief)), None)
    assert all(words in f"{caught.value.message} {caught.value.hint}" for words in says)


def failed(rank: int | None, *lines: str) -> Result:
    return Result(state="failed", culprit=Culprit(rank, "b", lines, exit=1), seconds=1.0)


HINTS = {
    "the log of the rank that failed": (failed(1, "ValueError: x"), "fab logs --run r1 --rank 1"),
    "a host that was lost": (failed(None, "lost"), "fab status"),
    "a file that was not sent": (
        failed(0, "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'"),
        "--data NAME=FOLDER",
    ),
    "a package that no host has": (
        failed(0, "ModuleNotFoundError: No module named 'sklearn.svm'"),
        "sklearn is not on the hosts: name the package scikit-learn in a file for --requirements;"
        " modules of your own lie in --workdir",
    ),
    "a package that the program can do without": (
        failed(0, "ModuleNotFoundError: No module named 'faster'", "ValueError: x"),
        "fab logs --run r1 --rank 0",
    ),
    "a run that another one kept from starting": (
        Result(
            state="failed",
            culprit=Culprit(None, None, ("run r2 is running on this chief: one run at a time",)),
        ),
        "fab attach --run r2   # or: fab cancel --run r2",
    ),
    "an absolute path": (
        failed(0, "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'"),
        "fab logs --run r1 --rank 0",
    ),
}


@pytest.mark.parametrize("result, hint", HINTS.values(), ids=HINTS)
def test_a_failure_names_the_next_step(result: Result, hint: str) -> None:
    with pytest.raises(RunFailed) as caught:
        judge(RUN, result)
    assert caught.value.hint.endswith(hint)


WRONG_KERAS = {
    2: "ImportError: cannot import name 'ops' from 'tf_keras'",
    3: "ValueError: Invalid filepath extension for saving. Please add",
}


@pytest.mark.parametrize("keras, line", WRONG_KERAS.items())
def test_a_script_with_the_wrong_keras_names_the_option(
    tmp_path: Path, keras: int, line: str
) -> None:
    """The Keras of the run is in its run.json; after both were tried, none is named."""
    run, result = Run("r1", tmp_path), failed(0, line)
    (tmp_path / "run.json").write_text(json.dumps(run_json(keras=keras)))
    with pytest.raises(RunFailed) as caught:
        judge(run, result)
    assert caught.value.hint.endswith(f"--keras {5 - keras}")
    assert result.culprit
    tried = replace(result, attempts=(Attempt(5 - keras, result.culprit, 4.0),))
    with pytest.raises(RunFailed) as caught:
        judge(run, tried)
    assert caught.value.hint == "fab logs --run r1 --rank 0"


def test_an_attempt_with_the_other_keras_is_one_line_without_escapes() -> None:
    first = Culprit(1, "b", ("ImportError:", "\x1b[2Jno\nlegacy"), exit=1)
    lines = attempt_lines(ended(None, attempts=(Attempt(3, first, 4.0),)))
    assert lines == ["Keras 3 failed (no legacy): started again with Keras 2"]
    assert attempt_lines(None) == attempt_lines(ended(None)) == []


SWEPT: dict[str, tuple[Any, str]] = {
    "all ended": ({"a": Swept(2, ())}, ""),
    "one is running": ({"a": Swept(0, (77,))}, r"its processes \[77\] are still running on a"),
    "no answer": ({"b": NotSwept("no answer")}, "b did not report .*: no answer"),
}


@pytest.mark.parametrize("swept, message", SWEPT.values(), ids=SWEPT)
def test_a_success_with_processes_left_is_an_error(swept: Any, message: str) -> None:
    """Also where its evaluation is too low: they use the hosts further."""
    result = ended(None, swept=swept)
    if not message:
        assert judge(RUN, result).startswith("run r1 succeeded")
        return
    for judged in (result, ended({"passed": False}, swept=swept)):
        with pytest.raises(RailheadError, match=message) as caught:
            judge(RUN, judged)
        assert (caught.value.code, caught.value.hint) == (1, "fab cancel --run r1")


def test_results_need_a_folder_that_can_be_written(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "results")
    assert not (tmp_path / "new").exists()
    (tmp_path / "results").write_text("a file")
    with pytest.raises(UsageError, match="results is not a folder"):
        require_writable(tmp_path / "results" / "r1")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (f"{NO_FILE}'/opt/ml/input/data/train/x.npy'", "os.environ['SM_CHANNEL_TRAIN']"),
        (f"{NO_FILE}'/opt/ml/model/1'", "os.environ['SM_MODEL_DIR']"),
        (f"{NO_FILE}'/opt/ml/input/config/hyperparameters.json'", "os.environ['SM_INPUT_DIR']"),
        (f"{NO_FILE}'/opt/ml/output/failure'", "os.environ['SM_OUTPUT_DIR']"),
        ("cannot write to /opt/ml", "add --sagemaker"),
        (f"{NO_FILE}'/opt/mlflow'", "fab logs --run r1"),
    ],
)
def test_a_path_of_sagemaker_in_a_failure_gets_a_hint(line: str, hint: str) -> None:
    with pytest.raises(RunFailed) as caught:
        judge(RUN, failed(0, "Traceback", line))
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "reason"), [(("a", "b", "", " "), "b"), (("a",), "a"), ((), ""), (("", " "), "")]
)
def test_the_reason_of_a_failure_is_the_last_line_that_says_something(
    lines: tuple[str, ...], reason: str
) -> None:
    assert Culprit(1, "h1", lines).reason == reason


@pytest.mark.parametrize(
    ("culprit", "says"),
    [
        (Culprit(None, "h2", ("x",)), "lost on h2"),
        (Culprit(None, None, ("x",)), "mpirun failed"),
        (None, "mpirun failed"),
        (Culprit(1, "h2", ("x",), signal=9), "rank 1 on h2 was killed by signal 9"),
        (Culprit(1, "h2", ("x",), exit=4), "rank 1 on h2 exited with 4"),
        (Culprit(1, "h2", ("x",)), "rank 1 on h2 exited with 1"),
    ],
)
def test_a_failure_says_what_has_ended_and_where(culprit: Culprit | None, says: str) -> None:
    with pytest.raises(RunFailed, match=f"^run r1 failed: {says}\n"):
        judge(RUN, Result(run_id="r1", state="failed", culprit=culprit))
