"""`fab evaluate`, and the thresholds of --min and --max: what is refused, sent and judged."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples.forks import copy_with_a_model
from standins.options import program
from standins.runs.run_documents import record_run, run_document, settings_of
from standins.runs.supervised_run import Run as SupervisedRun
from standins.runs.supervised_run import hashed, says

import railhead
from bootstrap.cli import result_tasks
from bootstrap.cli.running import Exit
from bootstrap.errors import BelowThreshold, RailheadError, UsageError
from bootstrap.evaluation import here
from bootstrap.evaluation.request import read_evaluation
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.provision.local_environment import RUNTIME, environment_folder
from bootstrap.runs.earlier_run import EarlierRun, earlier_run, resumed_request
from bootstrap.runs.metrics.options import read_thresholds
from bootstrap.runs.request import read_request
from bootstrap.runs.results import judge
from bootstrap.runs.run import Run
from bootstrap.serving.source import source_of
from railhead.documents.cluster import ClusterPrice
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.evaluation import Reported, Threshold
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import Script

pytestmark = pytest.mark.usefixtures("remembered_checks")

AT_LEAST = {"metric": "accuracy", "bound": "min", "value": 0.9}
AT_MOST = {"metric": "loss", "bound": "max", "value": 0.2}


def thresholds(**options: tuple[str, ...]) -> tuple[Threshold, ...]:
    """The thresholds of options as they are typed."""
    typed = program(**options)
    return read_thresholds(typed.minimum, typed.maximum)


@pytest.mark.parametrize(
    "text", ["accuracy", "=1", "accuracy=high", "accuracy=nan", "accuracy=inf", "a b=1"]
)
def test_a_threshold_is_a_name_and_a_number(text: str) -> None:
    with pytest.raises(UsageError, match=r"--max"):
        thresholds(maximum=(text,))


def test_a_metric_may_have_both_bounds_but_each_once() -> None:
    both = thresholds(minimum=("loss=0",), maximum=("loss=1",))
    assert both == (Threshold("loss", "min", 0.0), Threshold("loss", "max", 1.0))
    with pytest.raises(UsageError, match="--min"):
        thresholds(minimum=("loss=0", "loss=1"))


def test_a_metric_that_the_training_does_not_have_is_refused_before_a_run() -> None:
    with pytest.raises(UsageError, match="Did you mean accuracy.* Choices: loss, accuracy"):
        read_request(program(minimum=("acuracy=1",)))
    with pytest.raises(UsageError, match="Choices: loss, mae$"):
        read_request(program(settings=("task=regression", "data=synthetic"), minimum=("f1=1",)))


PATTERNS = [{"name": name, "pattern": f"{name} ([0-9.]+)"} for name in ("accuracy", "f1")]
RECORD = '@railhead {"kind": "evaluation", "accuracy": 0.8, "loss": 1}'


def test_the_numbers_of_a_script_are_judged_on_the_chief(home: Path) -> None:
    """What the training log says of a metric, before or after, does not replace the record; of a
    metric that is not in the record the last value counts."""
    lines = ("accuracy 1.0", "f1 0.4", RECORD, "accuracy 0.99 f1 0.5")
    script = "; ".join(says(0, line) for line in lines)
    run = SupervisedRun(home, script, thresholds=[AT_LEAST], metrics=PATTERNS)
    evaluation = run.result()["evaluation"]
    assert evaluation["failed"] == ["accuracy 0.8 is below --min accuracy=0.9"]
    assert (evaluation["accuracy"], evaluation["f1"]) == (0.8, 0.5)
    assert run.read("results/evaluation.json") == evaluation


def test_metrics_alone_are_judged_and_the_file_of_the_program_keeps_what_else_it_has(
    home: Path,
) -> None:
    script = f"{says(0, 'accuracy 0.5')}; {says(0, 'accuracy 0.95')}"
    run = SupervisedRun(home, script, thresholds=[AT_LEAST], metrics=PATTERNS)
    run.write("results/evaluation.json", {"accuracy": 0.952345, "confusion": [[1]]})
    evaluation, written = run.result()["evaluation"], run.read("results/evaluation.json")
    assert evaluation["passed"] and evaluation["accuracy"] == 0.95
    assert (written["accuracy"], written["confusion"], written["passed"]) == (0.952345, [[1]], True)
    assert "results/evaluation.json" in hashed(run)


def test_the_record_of_a_script_is_a_file_also_without_thresholds(home: Path) -> None:
    run = SupervisedRun(home, f"{says(0, RECORD)}; {says(0, 'f1 0.5')}", metrics=PATTERNS)
    assert run.result()["evaluation"] == {"accuracy": 0.8, "loss": 1}
    assert run.read("results/evaluation.json") == {"accuracy": 0.8, "loss": 1}
    assert "results/evaluation.json" in hashed(run)


def test_a_missed_threshold_is_exit_3_and_its_text_is_cleaned() -> None:
    evaluation = {"passed": False, "failed": ["accuracy \x1b[2J0.8 is below --min accuracy=0.9"]}
    result = Result(state="succeeded", seconds=1.0, size=2, evaluation=Reported(evaluation))
    with pytest.raises(BelowThreshold, match=r"^accuracy 0\.8 is below --min"):
        judge(Run("r1", Path("results/r1")), result)


# --- The request -----------------------------------------------------------------------------


def recorded(folder: Path, args: ProgramOptions, **changes: Any) -> EarlierRun:
    """A run with these options, whose results are in `folder`."""
    request = read_request(args)
    values = {"launcher": "tensorflow", **changes}
    document = run_document(program=request.program, bundle=request.bundle.digest, **values)
    record_run(folder / "results/r1", document, request.record)
    return earlier_run("r1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the results of a run, and data."""
    (tmp_path / "results/r1").mkdir(parents=True)
    (tmp_path / "results/r1/model.keras").write_bytes(b"a model")
    (tmp_path / "results/r1/evaluations/r2").mkdir(parents=True)  # another one's files
    (tmp_path / "results/r1/evaluations/r2/other.keras").touch()
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/x.npz").write_bytes(b"data")
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "eval.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAINING = program(settings=("data=numpy", "seed=7"), data=("train=mnist",))


def test_an_evaluation_has_the_settings_and_the_data_of_its_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = recorded(project, TRAINING)
    monkeypatch.chdir("/")
    request = read_evaluation(earlier, program(minimum=("accuracy=0.9",)))
    assert request.program.kind == "evaluation" and request.program.settings["seed"] == 7
    assert (request.options.launcher, request.options.evaluates) == ("tensorflow", "r1")
    train, model = request.data
    assert (train.spec.name, train.spec.uri) == ("train", str(project / "mnist"))
    assert model.spec.name == "model" and model.files
    assert [file.path for file in model.files.files] == ["model.keras"]


def test_only_a_script_is_evaluated_with_horovod_because_its_run_was(project: Path) -> None:
    earlier = recorded(project, TRAINING, launcher="horovod")
    built_in = read_evaluation(earlier, program()).options
    assert built_in.strategy == "auto" and built_in.any_launcher
    for args in (program(script="eval.py"), program(launcher="horovod")):
        options = read_evaluation(earlier, args).options
        assert (options.launcher, options.strategy) == ("horovod", None)


def test_an_evaluation_has_the_copy_of_the_training_of_its_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_with_a_model(project)
    options = replace(TRAINING, training="training", settings={"data": "numpy", "model": "mine"})
    earlier = recorded(project, options)
    monkeypatch.chdir("/")
    request = read_evaluation(earlier, program(minimum=("accuracy=0.9",)))
    assert settings_of(request.program)["model"] == "mine" and request.bundle.root == project
    assert "training/models/mine.py" in {file.path for file in request.bundle.files}


def test_other_data_needs_no_training_data(project: Path) -> None:
    request = read_evaluation(recorded(project, TRAINING), program(data=("test=mnist",)))
    assert [item.spec.name for item in request.data] == ["test", "model"]


def test_a_script_gets_the_results_of_the_run(project: Path) -> None:
    earlier = recorded(project, program(script="train.py"))
    request = read_evaluation(earlier, program(script="eval.py"))
    (model,) = request.data
    assert (model.spec.name, model.spec.uri) == ("model", str(project / "results/r1"))
    assert request.program.kind == "script"


def test_a_module_evaluates_as_a_script_does(project: Path) -> None:
    earlier = recorded(project, program(script="train.py"))
    (project / "judge").mkdir()
    (project / "judge/task.py").write_text("")
    request = read_evaluation(earlier, program(module="judge.task", workdir="."))
    assert isinstance(request.program, Script) and request.program.module == "judge.task"
    assert [item.spec.name for item in request.data] == ["model"]


REFUSED: dict[str, tuple[ProgramOptions, ProgramOptions, str]] = {
    "a script's model": (program(script="train.py"), program(), "name a script that evaluates"),
    "no such metric": (TRAINING, program(maximum=("mae=1",)), r"no such metric\. Choices: loss"),
    "a pattern": (TRAINING, program(metrics=("a=(.)",)), "need --script"),
    "no such data": (TRAINING, program(data=("test=nowhere",)), "no file or folder nowhere"),
    "data of another name": (TRAINING, program(data=("x=mnist",)), "accepts train, validation"),
    "the name of the model": (
        TRAINING,
        program(script="eval.py", data=("model=mnist",)),
        "reserved for the results of the run",
    ),
}


@pytest.mark.parametrize(("run", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_evaluated_is_refused(
    project: Path, run: ProgramOptions, options: ProgramOptions, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read_evaluation(recorded(project, run), options)


def test_one_of_several_models_is_named(project: Path) -> None:
    earlier = recorded(project, TRAINING)
    (project / "results/r1/best.keras").write_bytes(b"another model")
    with pytest.raises(UsageError, match="several models: best.keras, model.keras") as several:
        read_evaluation(earlier, program())
    assert several.value.hint.startswith("fab evaluate r1 --model model.keras")
    model = read_evaluation(earlier, program(), "best.keras").data[-1]
    assert model.files and [file.path for file in model.files.files] == ["best.keras"]
    with pytest.raises(UsageError, match="--model cannot be used with --script"):
        read_evaluation(earlier, program(script="eval.py"), "best.keras")


def test_a_run_without_a_model_names_the_next_command(project: Path) -> None:
    earlier = recorded(project, TRAINING)
    (project / "results/r1/model.keras").unlink()
    with pytest.raises(UsageError, match="has no model here") as caught:
        read_evaluation(earlier, program())
    assert caught.value.hint == "fab fetch --run r1"


EVALUATED = """{"kind": "metric", "name": "f1", "value": 0.75, "number": 1, "rank": 0}
{"kind": "evaluation", "accuracy": 0.5, "rank": 0, "host": "h1", "time": 1.0}
{"kind": "evaluation", "accuracy": 0.96, "rank": 0, "host": "h1", "time": 2.0}
{"kind": "metric", "name": "accuracy", "value": 0.999, "number": 1, "rank": 0}
"""


def test_what_a_script_has_reported_is_judged_without_running_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the task and by Python, whatever the thresholds of its training were."""
    recorded(project, program(script="train.py"))
    results = project / "results/r1"
    with pytest.raises(Exit, match="run r1 has no results here"):
        result_tasks.evaluate(run="r1")
    (results / "metrics.jsonl").write_text('{"kind": "epoch", "val_accuracy": 1}\n')
    with pytest.raises(Exit, match="run r1 reported no evaluation"):
        result_tasks.evaluate(run="r1", min=["accuracy=0.9"])
    (results / "metrics.jsonl").write_text(EVALUATED)
    (results / "evaluation.json").write_text('{"accuracy": 0.96, "passed": false, "failed": ["x"]}')
    result_tasks.evaluate(run="r1", min=["accuracy=0.96", "f1=0.7"], max=["accuracy=0.97"])
    assert "evaluation  accuracy 0.960" in capsys.readouterr().out
    run = railhead.Run("r1")
    assert run.evaluate(minimum={"accuracy": 0.96})["passed"] is True
    with pytest.raises(Exit) as below:
        result_tasks.evaluate(run="r1", min=["accuracy=0.97"])
    assert below.value.code == 3
    with pytest.raises(railhead.BelowThreshold, match="accuracy 0.96 is below --min accuracy=0.97"):
        run.evaluate(minimum={"accuracy": 0.97})
    # New data needs a program; and the report may be of another model.
    for options in ({"data": {"test": "mnist"}}, {"model": "model.keras"}):
        with pytest.raises(UsageError, match="name a script that evaluates"):
            run.evaluate(minimum={"accuracy": 0.9}, **options)
    with pytest.raises(Exit, match="name a script that evaluates"):
        result_tasks.evaluate(run="r1", model="model.keras")
    assert not (results / "evaluations/r1").exists()


CARBON = {
    "method": "m", "gpu_kwh": 0.5, "other_kwh": 0.25, "seconds": 1800.0, "machines": 1, "notes": [],
    "grid": {"g_per_kwh": 400, "pue": 1.1, "place": "X", "year": 2025, "source": "S"},
}  # fmt: skip


@pytest.mark.parametrize("least", ["0.9", "0.97"])
def test_a_gate_ends_with_accuracy_cost_and_carbon_in_one_table(
    project: Path, capsys: pytest.CaptureFixture[str], least: str
) -> None:
    """Also where a threshold is missed. Half an hour on one host at 4 USD an hour."""
    recorded(project, program(script="train.py"))
    results = project / "results/r1"
    (results / "metrics.jsonl").write_text(EVALUATED)
    hosts = (Host("h1", "10.0.0.1"),)
    local_state.save_cluster(
        Inventory("c", hosts, cloud="aws", price=ClusterPrice(4.0, "USD", "list", "2026-11-01"))
    )
    for carbon, shown in ((None, "not measured"), (CARBON, "300 gCO2e: measured 200 (GPUs), ")):
        result = {"state": "succeeded", "seconds": 1800.0, "carbon": carbon}
        (results / "result.json").write_text(json.dumps(result))
        try:
            result_tasks.evaluate(run="r1", min=[f"accuracy={least}"])
        except Exit as missed:
            assert missed.code == 3 and least == "0.97"
        accuracy, _, cost, last = capsys.readouterr().out.splitlines()[-4:]
        assert accuracy == f"accuracy{' ' * 16}96.00 %"
        assert cost == f"cost of the training{' ' * 4}2.00 USD"
        assert last.startswith(f"carbon of the training  {shown}")


def test_an_evaluation_is_neither_evaluated_nor_resumed(project: Path) -> None:
    earlier = recorded(project, TRAINING, evaluates="r0")
    with pytest.raises(UsageError, match="r1 is an evaluation"):
        read_evaluation(earlier, program())
    with pytest.raises(UsageError, match="r1 evaluates run r0"):
        resumed_request(earlier, program())


def test_what_is_deployed_by_default_is_the_model_that_was_evaluated(project: Path) -> None:
    recorded(project, TRAINING)
    record_run(project / "results/r1/evaluations/r2", run_document(run_id="r2", evaluates="r1"))
    cluster = Inventory("c", (Host("h1", "10.0.0.1"),))
    assert source_of(None, None, cluster).run_id == "r1"


# --- Here ------------------------------------------------------------------------------------


def place_runtime() -> Path:
    """Where the Python of the runtime on this machine is; its folder is there."""
    python = environment_folder(RUNTIME) / "bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    return python


def test_here_the_file_is_judged_too(project: Path) -> None:
    """The runtime's Python is a shell script that writes what our evaluation writes."""
    python = place_runtime()
    python.write_text(
        '#!/bin/sh\nmkdir -p "$4"\necho \'{"accuracy": 0.8}\' >"$4/evaluation.json"\n'
    )
    python.chmod(0o755)
    earlier = recorded(project, TRAINING)
    request = read_evaluation(earlier, program(minimum=("accuracy=0.9",)))
    with pytest.raises(BelowThreshold, match="accuracy 0.8 is below"):
        here.evaluate(earlier, request)
    (path,) = (project / "results/r1/evaluations").glob("*/evaluation.json")
    assert json.loads(path.read_text())["passed"] is False


EVAL = """
import json, os, pathlib, sys
assert (pathlib.Path(os.environ["RAILHEAD_DATA_MODEL"]) / "model.keras").exists()
assert os.environ["KERAS_HOME"].endswith("/.railhead/keras")  # TensorFlow makes this folder
assert os.environ["RAILHEAD_DATA_TEST"].endswith("mnist") and os.environ["TOKEN"] == "x"
print("F1: 0.5")
print("F1: 0.75")
print('@railhead {"kind": "evaluation", "accuracy": 0.8}')
print("accuracy now 0.99")  # of the training log
print('@railhead {"kind": "epoch", "accuracy": 0.1}', "@railhead [", sep="\\n")
"""


def here_with_script(project: Path, *mins: str, f1: str = "([0-9.]+)") -> dict[str, Any]:
    """evaluation.json of a script that was evaluated with this Python; `f1`: of a pattern."""
    python = place_runtime()
    python.unlink(missing_ok=True)
    python.symlink_to(sys.executable)
    (project / "eval.py").write_text(EVAL)
    earlier = recorded(project, program(script="train.py"))
    args = program(
        script="eval.py", data=("test=mnist",), minimum=mins, env=("TOKEN=x",),
        metrics=(f"f1=F1: {f1}", "accuracy=accuracy now ([0-9.]+)"),
    )  # fmt: skip
    folder = here.evaluate(earlier, read_evaluation(earlier, args))
    evaluation: dict[str, Any] = json.loads((folder / "evaluation.json").read_text())
    return evaluation


def test_a_script_is_evaluated_here_too(project: Path) -> None:
    evaluation = here_with_script(project, "f1=0.7", "accuracy=0.8")
    assert (evaluation["f1"], evaluation["accuracy"], evaluation["passed"]) == (0.75, 0.8, True)
    with pytest.raises(BelowThreshold, match="f1 0.75 is below --min f1=0.9"):
        here_with_script(project, "f1=0.9")


def test_a_metric_that_ends_as_nan_meets_no_threshold(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EVAL", f"{EVAL}\nprint('F1: nan')\n")
    with pytest.raises(BelowThreshold, match="the run has no metric 'f1'"):
        here_with_script(project, "f1=0.7", f1=r"(\S+)")
    (file,) = (project / "results/r1/evaluations").glob("*/evaluation.json")
    assert json.loads(file.read_text())["f1"] is None


@pytest.mark.parametrize(
    ("end", "message"), [("os.kill(os.getpid(), 9)", "signal 9"), ("raise SystemExit(4)", "code 4")]
)
def test_a_script_that_ends_early_has_not_evaluated(
    project: Path, monkeypatch: pytest.MonkeyPatch, end: str, message: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EVAL", f"{EVAL}\nsys.stdout.flush()\n{end}\n")
    with pytest.raises(RailheadError, match=message) as failed:
        here_with_script(project)
    assert failed.value.code == 1
    assert not list((project / "results/r1/evaluations").glob("*/evaluation.json"))


@pytest.mark.parametrize(
    "script", ["echo $$; exec sleep 60", "trap '' TERM; echo $$; while :; do sleep 0.2; done"]
)
def test_a_program_is_terminated_after_an_interrupt(
    project: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(here, "END_SECONDS", 0.5)
    lines = here._lines(["sh", "-c", script], project, {})
    pid = int(next(lines))
    with pytest.raises(KeyboardInterrupt):
        lines.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_data_of_the_hosts_is_not_here(project: Path) -> None:
    earlier = recorded(project, TRAINING)
    args = program(data=("test=host:/data/x",))
    with pytest.raises(UsageError, match="is on the hosts, not here"):
        here.evaluate(earlier, read_evaluation(earlier, args))
