"""`import railhead`: its methods give the workflows what the tasks of fab give them."""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import ROOT
from standins.options import program
from standins.runs.run_documents import record_run, run_document
from standins.runs.trained_runs import Runs

import railhead
from bootstrap.cli import result_tasks
from bootstrap.cli.targets import Target
from bootstrap.console.live import Board
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.runs.launch import StopPolicy
from bootstrap.runs.request import record_of, split
from bootstrap.serving.request import DeployRequest
from bootstrap.ssh.session import ConnectionLost
from bootstrap.workflows import attach, serving
from bootstrap.workflows import records as live_records
from bootstrap.workflows import teardown as tearing_down
from bootstrap.workflows import train as training
from railhead.documents.agent.runs import MetricLine
from railhead.documents.options.hosts import TargetOptions, TeardownOptions
from railhead.documents.options.option import from_values
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.evaluation import Threshold
from railhead.documents.runs.records import Record
from railhead.documents.runs.run import Script
from railhead.documents.runs.run_record import RunRecord


class Workflows:
    """Records what the workflows are called with."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.trained: list[Any] = []
        self.attached: list[str] = []
        self.torn_down: list[str] = []
        patch.setattr(training, "train", self.train)
        self.watches: list[Any] = []
        patch.setattr(attach, "attach", self.attach)
        patch.setattr(
            tearing_down, "teardown", lambda inventory, _: self.torn_down.append(inventory.name)
        )
        for hosts in ("_hosts", "_status"):
            patch.setattr(railhead.Run, hosts, lambda run, *where: None)

    def attach(self, inventory: Any, run_id: str, watch: Any) -> None:
        self.attached.append(run_id)
        self.watches.append(watch)

    def train(self, inventory: Any, options: Any) -> Any:
        self.trained.append(options)
        return SimpleNamespace(run_id="r1", results=options.results / "r1")


@pytest.fixture
def workflows(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflows:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/x.npz").write_bytes(b"data")
    return Workflows(monkeypatch)


def test_a_training_is_requested_as_by_the_task(workflows: Workflows) -> None:
    run = railhead.Cluster(["a", "b"], slots=2).train(
        script="train.py", args={"epochs": 3, "name": "a b"}, data={"train": "mnist"},
        launcher="tensorflow", env={"A": "1"}, metrics={"loss": "l ([0-9]+)"},
        minimum={"accuracy": 0.9}, max_hours=2, stop=False, name="mine",
    )  # fmt: skip
    (options,) = workflows.trained
    request = options.request
    assert request.program.args == ("--epochs", "3", "--name", "a b")
    assert [item.spec.name for item in request.data] == ["train"]
    assert request.options.launcher == "tensorflow" and request.options.env == {"A": "1"}
    assert request.options.name == "mine"
    assert request.options.thresholds == (Threshold("accuracy", "min", 0.9),)
    assert options.stop_policy == StopPolicy(20, stop=False, max_hours=2.0)
    assert options.results == Path.cwd() / "results"
    assert run == railhead.Run("r1") and workflows.attached == ["r1"]


def test_a_run_need_not_be_followed(workflows: Workflows) -> None:
    railhead.Cluster("a").train(preset="smoke", settings={"flip": "on"}, wait=False)
    assert workflows.trained[0].request.program.settings["flip"] == "on"
    assert workflows.attached == []


@pytest.mark.parametrize(
    ("args", "argv"),
    [("--a 'b c'", ("--a", "b c")), (["--a", "b c", 3], ("--a", "b c", "3")), (None, ())],
)
def test_arguments_are_text_a_list_or_a_mapping(args: Any, argv: tuple[str, ...]) -> None:
    assert split(from_values(ProgramOptions, {"args": args}, UsageError).args or "") == argv


def test_a_wrong_option_is_an_error_before_a_host_is_contacted(workflows: Workflows) -> None:
    with pytest.raises(railhead.UsageError, match="Did you mean smoke"):
        railhead.Cluster("a").train(preset="smok")
    with pytest.raises(railhead.UsageError, match="no such metric"):
        railhead.Cluster("a").train(minimum={"mae": 1})
    with pytest.raises(railhead.UsageError, match="--name 'a b' is not a name of at most 40"):
        railhead.Cluster("a").train(preset="smoke", name="a b")
    assert workflows.trained == []


def test_a_resumed_run_takes_all_from_the_record(
    workflows: Workflows, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {"loss": "l ([0-9]+)"}
    railhead.Cluster("a").train(script="train.py", args={"epochs": 3}, metrics=metrics, wait=False)
    request = workflows.trained[0].request
    document = run_document(program=request.program)
    record_run(Path.cwd() / "results/r1", document, request.record)
    railhead.Cluster("a").train(resume="r1", metrics=metrics, wait=False)
    resumed = workflows.trained[1]
    assert resumed.earlier.run.run_id == "r1"
    assert resumed.request.program.args == ("--epochs", "3")
    assert "the program has changed since run r1" in capsys.readouterr().out


def test_the_machines_of_a_stack_are_a_cluster() -> None:
    cluster = railhead.Cluster.from_stack("gpu", slots=2, results="there")
    assert cluster._target.options == TargetOptions(stack="gpu", slots=2)
    assert cluster._results == Path.cwd() / "there"
    with pytest.raises(TypeError):  # hosts of a stack are those that Pulumi has
        railhead.Cluster.from_stack("gpu", hosts="a")


def test_the_model_of_a_run_is_deployed_on_its_hosts(
    workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_state.save_run(RunRecord("r1", "c", str(Path.cwd() / "results/r1")))
    deployed: list[tuple[str, Any, Any]] = []
    for name in ("deploy_here", "deploy_on_host"):
        monkeypatch.setattr(
            serving, name, lambda *args, name=name: deployed.append((name, *args[-2:]))
        )
    endpoint = railhead.Run("r1").deploy("digits", hours=0.5, port=9000)
    railhead.Run("r1").deploy(here=True, trust_model=True)
    (on_host, request, source), (here, default, trusted) = deployed
    assert (on_host, here, endpoint) == (
        "deploy_on_host",
        "deploy_here",
        railhead.Endpoint("digits"),
    )
    assert (request.name, request.hours, request.port) == ("digits", 0.5, 9000)
    assert (default.name, source.run_id) == ("model", "r1")
    assert (source.trusted, trusted.trusted) == (False, True)


def test_every_option_of_the_task_deploys_from_python(
    workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_state.save_run(RunRecord("r1", "c", str(Path.cwd() / "results/r1")))
    deployed: list[Any] = []
    places: list[Any] = []
    monkeypatch.setattr(serving, "deploy_on_host", lambda *args: deployed.extend(args[1:]))
    monkeypatch.setattr(railhead.Run, "_status", lambda run, *where: places.append(where))
    railhead.Run("r1").deploy(
        "digits", update=True, model="other.keras", max_batch=8, max_delay=0.5, hosts=["x", "y"],
        server="tensorflow-serving", hours=2, port=9001,
    )  # fmt: skip
    request, source = deployed
    assert request == DeployRequest(
        "digits", 9001, 2.0, update=True, max_batch=8, max_delay_ms=0.5, server="tensorflow-serving"
    )
    assert (source.run_id, source.name) == ("r1", "other.keras")
    assert places == [(TargetOptions(hosts="x,y"),)]


def test_an_endpoint_is_deleted_by_name_and_at_the_end_of_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(serving, "undeploy", ended.append)
    railhead.Endpoint("digits").delete()
    with pytest.raises(ZeroDivisionError), railhead.Endpoint("other"):
        _ = 1 / 0
    assert ended == ["digits", "other"]


def test_the_block_tears_down_also_after_an_error(workflows: Workflows) -> None:
    with pytest.raises(ZeroDivisionError), railhead.Cluster("a"):
        raise ZeroDivisionError
    assert len(workflows.torn_down) == 1


@pytest.mark.parametrize("machines", [True, False])
def test_the_machines_of_a_stack_are_stopped_and_not_destroyed(
    workflows: Workflows, monkeypatch: pytest.MonkeyPatch, machines: bool
) -> None:
    status = SimpleNamespace(inventory=machines or None)
    options: list[TeardownOptions] = []
    looked_at: list[Any] = []
    monkeypatch.setattr(Target, "machines", lambda self: status)
    monkeypatch.setattr(Target, "status_of", lambda self, machines: looked_at.append(machines))
    monkeypatch.setattr(tearing_down, "teardown_stack", lambda _, chosen: options.append(chosen))
    railhead.Cluster.from_stack("gpu").teardown()
    assert options == [TeardownOptions(yes=True)]
    assert looked_at == ([status] if machines else []) and workflows.torn_down == []


def test_the_options_of_a_cluster_reach_its_runs(workflows: Workflows) -> None:
    (Path.cwd() / "more.txt").write_text("pandas\n")
    railhead.Cluster(
        "a", system=True, requirements="more.txt", peer_address="10.0.0.1", allow_mixed=True
    ).train(preset="smoke", wait=False)
    options = workflows.trained[0].options
    assert options.system and options.allow_mixed
    assert (options.requirements, options.peer_addresses) == (Path("more.txt"), ("10.0.0.1",))


def test_a_run_is_evaluated_in_its_own_folder(workflows: Workflows) -> None:
    results = Path.cwd() / "results/r1"
    (results / "evaluations/r1").mkdir(parents=True)
    (results / "model.keras").write_bytes(b"a model")
    (results / "evaluations/r1/evaluation.json").write_text('{"accuracy": 0.5}')
    railhead.Cluster("a").train(preset="smoke", wait=False)
    request = workflows.trained[0].request
    document = run_document(program=request.program)
    record_run(results, document, record_of(program(preset="smoke")))
    metrics = railhead.Run("r1").evaluate(minimum={"accuracy": 0.4})
    assert metrics == {"accuracy": 0.5}
    options = workflows.trained[1]
    assert options.results == results / "evaluations"
    assert options.request.program.kind == "evaluation"


def test_a_run_shows_its_records(workflows: Workflows) -> None:
    results = Path.cwd() / "results/r1"
    results.mkdir(parents=True)
    local_state.save_run(RunRecord("r1", "c", str(results)))
    run = railhead.Run("r1")
    assert (run.state, run.metrics(), run.evaluation()) == ("not fetched", [], {})
    (results / "metrics.jsonl").write_text(json.dumps({"kind": "epoch", "epoch": 1}) + "\n")
    assert run.metrics() == [{"kind": "epoch", "epoch": 1}]


@pytest.fixture
def hosts(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    runs = Runs(monkeypatch)
    runs.whole = parse_hosts("h1,h2")
    return runs


def test_a_sweep_gives_its_trials_and_the_task_finds_them_ended(
    hosts: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = railhead.Cluster("h1,h2").sweep({"learning_rate": [0.1, 0.5]}, preset="digits")
    assert [*sweep.runs] == ["learning_rate=0.1", "learning_rate=0.5"]
    assert [run.run_id for run in sweep.runs.values()] == hosts.started
    assert sweep.best == sweep.runs["learning_rate=0.5"] and sweep.page.exists()
    assert hosts.retries == [3, 3], "as with train"
    capsys.readouterr()
    task: Any = result_tasks.sweep
    task(hosts="h1,h2", set=("learning_rate=0.1,0.5",), preset="digits")
    assert len(hosts.started) == 2 and str(sweep.page) in capsys.readouterr().out


def test_each_trial_of_a_sweep_may_have_a_slice_of_the_hosts(hosts: Runs) -> None:
    rates = {"learning_rate": "0.1,0.2,0.5"}
    railhead.Cluster("h1,h2").sweep(rates, random=2, at_once=2, to_end=True, preset="digits")
    assert len(hosts.started) == 2 and {*hosts.hosts.values()} <= {"h1", "h2"}


def test_a_scaling_trains_on_each_number_of_hosts(hosts: Runs) -> None:
    settings = {"learning_rate": 0.5}
    cluster = railhead.Cluster("h1,h2")
    page = cluster.scale([2, 1], preset="digits", settings=settings, retries=1)
    assert hosts.retries == [1, 1]
    assert [*hosts.hosts.values()] == ["h1", "h1 h2"]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_cluster_whose_options_a_sweep_does_not_have_is_refused(hosts: Runs) -> None:
    for cluster in (railhead.Cluster("a", system=True), railhead.Cluster("a", peer_address="::1")):
        with pytest.raises(railhead.UsageError):
            cluster.sweep({"learning_rate": [1]})
        with pytest.raises(railhead.UsageError):
            cluster.scale([1, 2])


def test_runs_are_those_of_the_task(hosts: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert railhead.runs() == []
    railhead.Cluster("h1,h2").sweep({"learning_rate": [0.1, 0.5]}, preset="digits")
    capsys.readouterr()
    task: Any = result_tasks.runs
    task(json=True)
    assert railhead.runs() == json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in railhead.runs("time")] == hosts.started[::-1]
    with pytest.raises(railhead.UsageError):
        railhead.runs("nonsense")


HUGE = 10**5000  # Python does not write such a number as text
WRONG: list[Any] = [10**30, HUGE, "a\0b"]
MAPPINGS = ("settings", "env", "metrics", "minimum", "maximum", "data")
CLUSTER = ("slots", "results", "requirements", "runtime", "peer_address", "hosts")
ANY_NUMBER = ("results", "requirements", "env", "minimum", "maximum", "args", "outputs")
TRAIN = ("preset", "script", "launcher", "strategy", "ps", "keras", "keep", "max_hours", "resume")


def wrong_uses() -> Iterator[Any]:
    """Values of which none can be meant, in each place where one may be."""
    for value in WRONG:
        shown = "huge" if value == HUGE else repr(value)
        for name in (*CLUSTER, *TRAIN, *MAPPINGS, "args", "outputs", "secrets"):
            if value == 10**30 and name in ANY_NUMBER:
                continue
            yield pytest.param(name, value, id=f"{name}={shown}")
    yield from (pytest.param(name, "A", id=f"{name}=text") for name in ("outputs", "secrets"))
    yield from (pytest.param(name, [1], id=f"{name}=list") for name in MAPPINGS)


@pytest.mark.parametrize(("name", "value"), list(wrong_uses()))
def test_a_value_that_no_option_has_is_refused_before_a_host_is_contacted(
    workflows: Workflows, name: str, value: Any
) -> None:
    program: dict[str, Any] = {} if name in ("preset", "settings") else {"script": "train.py"}
    if name in CLUSTER:
        cluster: dict[str, Any] = {"hosts": "a", name: value}
        with pytest.raises(railhead.UsageError):
            railhead.Cluster(**cluster).train(preset="smoke")
    else:
        wrapped = {"a": value} if name in MAPPINGS and value in WRONG else value
        wrapped = [value] if name in ("outputs", "secrets", "args") and value in WRONG else wrapped
        with pytest.raises(railhead.UsageError):
            railhead.Cluster("a").train(**{**program, name: wrapped})
    assert workflows.trained == []


def test_every_method_is_in_its_page_and_every_argument_is_an_option_or_in_it() -> None:
    text = (ROOT / "docs/python.md").read_text()
    tasks = "".join(path.read_text() for path in (ROOT / "docs").glob("tasks*.md"))
    assert all(f"{name}" in text for name in railhead.__all__)
    for kind in (railhead.Cluster, railhead.Run, railhead.Sweep, railhead.Endpoint):
        for name in vars(kind):
            if not name.startswith("_") and name not in ("run_id", "name"):
                assert f".{name}" in text, f"{kind.__name__}.{name}"
    for method in (railhead.Cluster.train, railhead.Cluster.sweep, railhead.Cluster.scale):
        for name in inspect.signature(method).parameters:
            option = f"`--{name.replace('_', '-')}"
            assert name == "self" or f"{name}" in text or option in tasks, name


def test_a_function_is_called_with_the_record_of_each_epoch(workflows: Workflows) -> None:
    seen: list[Any] = []
    railhead.Run("r1").wait(on_epoch=seen.append)
    for kind in ("progress", "epoch", "evaluation"):
        workflows.watches[0](Record(kind=kind, epoch=2, epochs=5, figures={"loss": 0.5}))
    assert seen == [{"kind": "epoch", "epoch": 2, "epochs": 5, "time": None, "loss": 0.5}]


@pytest.fixture
def chief(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A chief whose agent sends these events, then ends with `ends`."""
    chief = SimpleNamespace(events=[], ends=None)

    def call(request: Any, on_event: Any) -> None:
        for event in chief.events:
            on_event(event)
        if chief.ends:
            raise chief.ends

    chief.call = call
    run = SimpleNamespace(folder="/f")
    monkeypatch.setattr(live_records, "find_on", lambda inventory, run_id: run)
    connection = SimpleNamespace(chief=chief)
    monkeypatch.setattr(live_records, "connected", lambda *_: nullcontext(connection))
    return chief


def test_records_come_as_they_are_written(workflows: Workflows, chief: Any) -> None:
    local_state.save_run(RunRecord("r1", "c", str(Path.cwd() / "results/r1")))
    texts = ['{"kind": "epoch", "epoch": 1}', "no record", '{"kind": "message", "text": "x"}']
    chief.events = [MetricLine(text, 0) for text in texts]
    assert [record["kind"] for record in railhead.Run("r1").records()] == ["epoch", "message"]
    assert next(railhead.Run("r1").records())["epoch"] == 1, "the loop may end early"
    chief.ends = ConnectionLost("h1: gone")
    records = railhead.Run("r1").records()
    assert [next(records)["kind"], next(records)["kind"]] == ["epoch", "message"]
    with pytest.raises(ConnectionLost, match="gone"):
        next(records)


def test_the_records_of_a_fetched_run_are_its_metrics(workflows: Workflows) -> None:
    folder = Path.cwd() / "results/r1"
    record_run(folder, run_document())
    folder.mkdir(parents=True)
    (folder / "result.json").write_text('{"state": "succeeded", "seconds": 5.0}')
    (folder / "metrics.jsonl").write_text('{"kind": "epoch", "epoch": 1, "loss": 0.5}\n')
    assert [record["loss"] for record in railhead.Run("r1").records()] == [0.5]


def test_hosts_that_are_out_of_reach_have_a_status_and_run_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = railhead.Cluster("127.0.0.1:9")
    (host,) = cluster.status()["hosts"]
    assert not host["reached"] and "refused" in host["reason"]
    with pytest.raises(railhead.RailheadError, match="cannot be reached"):
        cluster.exec(cmd="true")


def test_they_show_themselves(home: Path, tmp_path: Path) -> None:
    assert repr(railhead.Cluster("a,b")) == "railhead.Cluster('a,b')"
    assert repr(railhead.Cluster.from_stack("gpu")) == "railhead.Cluster.from_stack('gpu')"
    record_run(tmp_path / "r1", run_document(program=Script("script", "train.py"), name="mine"))
    line = repr(railhead.Run("r1"))
    assert line.startswith("Run r1 mine: not fetched, script train.py on ")


# --- Notebooks -------------------------------------------------------------------------------


def test_a_board_is_painted_over_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    display = SimpleNamespace(display=lambda *_, **__: handle)
    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with Board(out, ["h1", "h2"]) as board:
        board.print_lines("above")
        board.line("h1", "step 1")
        board.line("h2", "step \x1b[2J2")
    assert shown[-1].splitlines() == ["h1  step 1", "h2  step 2"]
    assert out.getvalue() == "above\n"


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", module)
    with Board(sys.stdout, ["h1"]) as board:
        assert not board.live
