"""Endpoints on this side: records, the state that a host reports, models, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import registered_cloud
from standins.options import typed
from standins.runs.run_documents import record_run, run_document, run_json

from bootstrap.cli import serving_tasks
from bootstrap.cli.running import Exit
from bootstrap.cli.targets import Target
from bootstrap.clouds.base import Deadline, InstanceState
from bootstrap.errors import FAILED, RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import power, reach
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.provision import uv, wheels
from bootstrap.serving import deploy as deploying
from bootstrap.serving import environment, records
from bootstrap.serving import undeploy as undeploying
from bootstrap.serving.deploy import check_deadline
from bootstrap.serving.environment import Environment, Server
from bootstrap.serving.place import EndpointPlace
from bootstrap.serving.predict import Predictions, check_file, predict_samples
from bootstrap.serving.request import DeployRequest, read_request
from bootstrap.serving.source import ModelSource, predict_hint, run_data, source_of
from bootstrap.serving.state import clock_of, describe
from bootstrap.untrusted.decode import parsed
from bootstrap.untrusted.unpack import Hostile
from bootstrap.workflows.notebook import open_notebook
from bootstrap.workflows.serving import check_free, deploy_on_host, deploy_trained, undeploy
from railhead.documents.agent.commands import CommandResult
from railhead.documents.agent.network import FindPort, FoundPort
from railhead.documents.agent.runs import EndRun
from railhead.documents.cluster import ClusterPrice
from railhead.documents.options.serving import DeployOptions
from railhead.documents.runs.run import RunData
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.runs.swept import OF_ENDPOINTS, Swept
from railhead.documents.serving.endpoint import Deployed, EndpointState

STATE: dict[str, Any] = {"state": "ready", "pid": 7, "heartbeat": 1.0, "until": 4000.0}


def state_of(text: str) -> EndpointState:
    return parsed(EndpointState, text, "x")


@pytest.mark.parametrize(
    ("change", "alive", "text"),
    [
        ({"version": 2, "requests": 5}, True, "ready, version 2, 5 requests, ends in 1 h 6 min"),
        ({"version": 1}, True, "ready, version 1, 0 requests, ends in 1 h 6 min"),
        ({"restarts": 1, "state": "restarting"}, True, "restarting, ends in 1 h 6 min, 1 restart"),
        (
            {"heartbeat": -240.0},
            True,
            "does not answer: no heartbeat for 4 min; its supervisor is stopped or hangs, "
            "and will not end it in time",
        ),
        ({}, False, "LOST: its supervisor died, or the host restarted"),
        ({"state": "failed", "reason": "port 1 is in use"}, False, "failed: port 1 is in use"),
        (
            {"state": "ended", "reason": "its time-to-live is over", "machine": "left to a run"},
            False,
            "ended: its time-to-live is over; machine: left to a run",
        ),
    ],
)
def test_a_state_as_text(change: dict[str, Any], alive: bool, text: str) -> None:
    state = state_of(json.dumps({**STATE, **change}))
    assert describe(state, alive, now=0.0) == text


INVALID: list[dict[str, Any]] = [
    {"state": "happy"}, {"state": 1}, {"pid": "7"}, {"pid": 1}, {"pid": 1 << 40}, {"until": None},
    {"version": True}, {"reason": []}, {"failed": {"1": 2}}, {"failed": 1},
    {"version": float("nan")}, {"until": float("inf")}, {"requests": 10**400},
]  # fmt: skip
DAMAGED = ["", "[]", "{}", "[" * 100_000, *(json.dumps({**STATE, **x}) for x in INVALID)]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_state_that_is_not_valid_is_refused(text: str) -> None:
    with pytest.raises(Hostile):
        state_of(text)


def test_escapes_of_a_host_are_not_shown() -> None:
    state = state_of(json.dumps({**STATE, "state": "failed", "reason": "\x1b[2Jx"}))
    assert "\x1b" not in describe(state, False, 0.0)


def test_records_are_found_by_name_and_by_cluster() -> None:
    with pytest.raises(UsageError, match="no endpoint 'm' is deployed\n"):
        records.require("m")
    on_host, here = Deployed("m", "c", "h1", 8501, "r1"), Deployed("n", None, "here", 8502, None)
    records.save(on_host)
    records.save(here)
    assert records.require("m") == on_host
    assert (records.of_cluster("c"), records.of_cluster(None)) == ([on_host], [here])
    with pytest.raises(UsageError, match="deployed: m, n"):
        records.require("x")
    records.forget(Deployed("m", "other", "h1", 8501, "r1"))
    assert records.names() == ["m", "n"], "one of the same name at another place stays"
    records.forget(on_host)
    assert records.names() == ["n"]


RECORD: dict[str, Any] = {"name": "m", "cluster": "c", "host": "h1", "port": 1, "run_id": None}
WRONG: list[dict[str, Any]] = [
    {"name": "n"}, {"cluster": "../c"}, {"host": None}, {"host": "a b"}, {"port": "1"},
    {"port": True}, {"port": 0}, {"run_id": []}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, *(json.dumps({**RECORD, **x}) for x in WRONG)]
)
def test_a_damaged_record_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    records.save(Deployed(**RECORD))
    assert records.of_cluster("c") == [records.find("m")] != [None]
    records._file("m").write_text(text)
    with pytest.raises(UsageError, match="the record of endpoint m is damaged"):
        records.find("m")
    assert records.of_cluster("c") == [], "other commands continue"
    assert "the record of endpoint m is damaged" in capsys.readouterr().out


def test_a_record_that_cannot_be_read_is_named() -> None:
    records.save(Deployed(**RECORD))
    records._file("m").unlink()
    records._file("m").symlink_to("m.json")
    with pytest.raises(UsageError, match="the record of endpoint m is damaged"):
        records.find("m")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 64, "a/b", "a.json"])
def test_a_name_that_is_not_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not an endpoint's name"):
        DeployRequest(name)


@pytest.mark.parametrize(
    "texts",
    [{"port": "80"}, {"port": "x"}, {"hours": "0"}, {"hours": "999"}, {"max_batch": "0"},
     {"max_delay": "-1"}, {"server": "triton"}],
)  # fmt: skip
def test_options_out_of_range_are_refused(texts: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--"):
        read_request(typed(DeployOptions, name="m", **texts))


@pytest.mark.parametrize(
    ("server", "max_batch", "expected"),
    [(None, None, 32), ("tensorflow-serving", None, 1), ("tensorflow-serving", "8", 8)],
)
def test_only_a_server_that_checks_its_model_joins_requests_by_default(
    server: str | None, max_batch: str | None, expected: int
) -> None:
    request = read_request(typed(DeployOptions, name="m", server=server, max_batch=max_batch))
    assert request.server_options(8501)[-3:-2] == [str(expected)]


def test_a_damaged_record_of_the_run_gives_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    local_state.save_run(RunRecord("r1", "c", str(tmp_path / "r1")))
    record = local_state.cluster_folder("c") / "runs/r1.json"
    record.write_text("{")
    assert run_data("r1") == {}
    source = source_of("r1", None)
    assert source.run_id == "r1"
    whole = json.loads(record.read_text())
    damaged: list[Any] = [[], run_json(data=1), run_json(data=[{}]), run_json(evaluates=1)]
    for document in damaged:
        record.write_text(json.dumps({**whole, "document": document}))
        assert source_of(None, None, Inventory("c", (Host("h1", "a"),))).runtime is None
        with pytest.raises(UsageError, match="the record of run r1 is damaged"):
            run_data("r1")


@pytest.mark.parametrize(
    ("document", "option"),
    [
        (run_json(), "--samples 10"),
        (run_json(program={"kind": "script", "path": "a.py"}), "--file"),
        (run_json(program=1), "--file"),
        (None, "--file"),
    ],
)
def test_samples_are_offered_where_their_data_is_known(
    document: Any, option: str, tmp_path: Path
) -> None:
    local_state.save_run(RunRecord("r1", "c", str(tmp_path / "r1"), document))
    assert str(predict_hint("m", "r1")).startswith(f"fab predict m {option}")
    assert str(predict_hint("m", None)).startswith("fab predict m --file")


def test_all_data_of_a_run_reaches_the_client_that_predicts_its_samples(tmp_path: Path) -> None:
    data = (
        RunData("train", "~/train", None, None, ("/h1/train", "/h2/train")),
        RunData("test", "~/test", None, None, None),
    )
    record_run(tmp_path / "r1", run_document(data=data))
    sent: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> CommandResult:
        sent.append(argv)
        return CommandResult(0, ('{"rows": [], "accuracy": null, "outputs": []}',))

    place: Any = SimpleNamespace(
        session=SimpleNamespace(run=run), absolute=lambda path: path, keras_home=dict
    )
    predict_samples(
        place,
        Deployed("m", "c", "h1", 8501, "r1"),
        Environment("p", "a", "c", "l"),
        7,
        run_data("r1"),
    )
    argv = sent[0][sent[0].index("--samples") :]
    assert argv == ["--samples", "7", "--data", "train=/h1/train", "--data", "test=~/test"]


@pytest.mark.parametrize(
    ("code", "kind"), [(1, RailheadError), (2, UsageError), (-9, RailheadError)]
)
def test_what_the_client_refuses_is_an_error_of_use(code: int, kind: type[RailheadError]) -> None:
    session = SimpleNamespace(run=lambda *_, **__: CommandResult(code, ("a", "\x1b[2Jwhy")))
    place: Any = SimpleNamespace(session=session, absolute=lambda path: path, keras_home=dict)
    deployed, environment = Deployed("m", "c", "h1", 8501, None), Environment("p", "a", "c", "l")
    with pytest.raises(RailheadError, match="^a\nwhy$") as caught:
        predict_samples(place, deployed, environment, 7, {})
    assert type(caught.value) is kind


def test_the_record_of_a_cluster_stays_when_one_of_its_hosts_gets_an_endpoint() -> None:
    whole = Inventory("c", (Host("h1", "a"), Host("h2", "b")))
    for inventory in (whole, whole.only(["h2"]), Inventory("d", (Host("h3", "c"),))):
        records.record_cluster(inventory)
    assert [local_state.load_cluster(name).names for name in "cd"] == [("h1", "h2"), ("h3",)]


def test_the_model_of_a_run_that_evaluates_is_that_of_the_other_run(tmp_path: Path) -> None:
    record_run(tmp_path / "r0", run_document(run_id="r0"))
    record_run(tmp_path / "r1", run_document(evaluates="r0"))
    for trusted in (False, True):
        source = source_of(None, None, Inventory("c", (Host("h1", "a"),)), trusted=trusted)
        assert (source.run_id, source.trusted) == ("r0", trusted)


def test_an_endpoint_of_a_cluster_that_is_gone_is_forgotten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records.save(Deployed("m", "gone", "h1", 8501, None))
    undeploy("m")
    assert records.names() == [] and "gone is gone: endpoint m" in capsys.readouterr().out


def test_the_name_of_the_notebook_is_refused() -> None:
    with pytest.raises(UsageError, match="fab notebook has this name"):
        read_request(DeployOptions(name="notebook"))


def stopped() -> ClusterStatus:
    """A machine of a stack that does not run."""
    machines = Inventory("c", (Host("h1", "h1", id="i-1"),), cloud="aws", stack="gpu")
    return ClusterStatus(machines, {"h1": InstanceState("stopped", None, "EC2", "now")}, "aws")


def refused_before_the_start(monkeypatch: pytest.MonkeyPatch, body: Callable[[], None]) -> str:
    """The message of the refusal."""
    monkeypatch.setattr(power, "start", lambda *_, **__: pytest.fail("the machines were started"))
    with pytest.raises(UsageError) as refused:
        body()
    return refused.value.message


def test_a_deploy_that_cannot_succeed_starts_no_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def message(request: DeployRequest) -> str:
        deploy = partial(deploy_on_host, stopped(), request, ModelSource(None, tmp_path))
        return refused_before_the_start(monkeypatch, deploy)

    assert "no SavedModel, no .keras and no .h5 file" in message(DeployRequest("m"))
    (tmp_path / "m.keras").touch()
    assert "cannot get a new version" in message(DeployRequest("m", update=True))
    records.save(Deployed("m", "other", "h2", 8501, None))
    assert "endpoint m is already on h2 of other" in message(DeployRequest("m"))


def test_a_process_can_deploy_more_than_once() -> None:
    """As by the Python interface: neither of the two classes takes a field from the other."""
    options = DeployOptions(name="a", max_delay=7.0)
    for name in ("b", "c"):
        options = replace(options, name=name)
        request = replace(read_request(options), update=None)
        assert (request.name, request.max_delay_ms) == (name, options.max_delay)


def test_after_a_run_a_model_that_is_not_deployed_is_no_wrong_usage(tmp_path: Path) -> None:
    """The exit code of wrong usage means that no run was started."""
    run_id = "20261126-000000-0001"
    local_state.save_run(RunRecord(run_id, "c", str(tmp_path)))
    records.save(Deployed("m", "other", "h2", 8501, None))
    with pytest.raises(RailheadError, match=f"{run_id} succeeded, .* already on h2") as failed:
        deploy_trained("m", run_id, stopped)
    assert failed.value.code == FAILED


def test_the_endpoint_of_a_run_is_checked_before_the_run() -> None:
    records.save(Deployed("m", "other", "h2", 8501, None))
    with pytest.raises(UsageError, match="already on h2 of other"):
        check_free("m", stopped().inventory)
    check_free("n", stopped().inventory)


def test_a_notebook_that_cannot_open_starts_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    records.save(Deployed(records.NOTEBOOK, "other", "h2", 8888, None))
    opened = partial(open_notebook, stopped(), None, 8888, None, 60)
    assert "is already on h2 of other" in refused_before_the_start(monkeypatch, opened)
    monkeypatch.setattr(Target, "status", lambda _: pytest.fail("the stack was read"))
    with pytest.raises(Exit, match="run 'typo' is not recorded here"):
        serving_tasks.notebook(run="typo")


class ArmedCloud:
    """Its own deadline of the machines is in this state."""

    def __init__(self, state: str) -> None:
        self.state = state

    def deadlines(self) -> dict[str, Deadline]:
        deadline = Deadline("stop", None, self.state, "EC2", "each start")
        return {"h1": deadline} if self.state else {}


def with_budget(status: ClusterStatus, budget: float) -> ClusterStatus:
    """Its two machines cost 1 USD an hour each."""
    hosts = (*status.inventory.hosts, Host("h2", "h2", id="i-2"))
    price = ClusterPrice(2.0, "USD", "the stack's config", "")
    states = {**status.instance_states, "h2": InstanceState("stopped", None, "EC2", "now")}
    return ClusterStatus(
        replace(status.inventory, hosts=hosts, price=price, budget=budget), states, "aws"
    )


@pytest.mark.parametrize(("budget", "is_spent"), [(2.99, True), (3.0, False)])
@pytest.mark.parametrize("task", ["deploy", "notebook"])
def test_a_time_to_live_beyond_the_budget_of_the_stack_starts_no_machine(
    task: str, budget: float, is_spent: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The chief alone is started, at 1 USD per hour, for 3 hours."""
    (tmp_path / "m.keras").touch()
    status, request = with_budget(stopped(), budget), DeployRequest("m", hours=3)
    body = {
        "deploy": partial(deploy_on_host, status, request, ModelSource(None, tmp_path)),
        "notebook": partial(open_notebook, status, None, 8888, None, 3 * 3600),
    }[task]
    if is_spent:
        assert "spent in 2.99 hours" in refused_before_the_start(monkeypatch, body)
        return

    def starts(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(power, "start", starts)
    with pytest.raises(KeyboardInterrupt):
        body()


def test_machines_that_run_beside_an_endpoint_spend_the_budget_too() -> None:
    status = with_budget(stopped(), 4)
    running = {"h2": InstanceState("running", None, "EC2", "now")}
    both = replace(status, instance_states={**status.instance_states, **running})
    power.check_time_to_live(status, 3 * 3600, print)
    with pytest.raises(UsageError, match="is spent in 2 hours") as refused:
        power.check_time_to_live(both, 3 * 3600, print)
    assert refused.value.hint.endswith("--hours 2")


@pytest.mark.parametrize("state", ["armed", "past", ""])
def test_an_endpoint_needs_the_deadline_of_the_cloud_as_a_run_does(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered_cloud.register(monkeypatch, "aws", ArmedCloud(state))
    running = {"h1": InstanceState("running", None, "EC2", "now")}
    status, printed = replace(stopped(), instance_states=running), list[str]()
    with pytest.raises(UsageError, match="is past") if state == "past" else nullcontext():
        power.check_time_to_live(status, 3600, printed.append)
    assert len(printed) == (state == "armed"), "hosts of this computer have no deadline"


def test_a_failure_after_the_start_says_that_the_machines_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(_: Inventory) -> None:
        raise UsageError("no")

    monkeypatch.setattr(power, "start", lambda inventory, *_, **__: inventory)
    monkeypatch.setattr(reach, "sessions", fails)
    (tmp_path / "m.keras").touch()
    with pytest.raises(UsageError, match="no"):
        deploy_on_host(stopped(), DeployRequest("m"), ModelSource(None, tmp_path))
    assert capsys.readouterr().out == "the machines keep running: fab stop --stack gpu\n"


def place(session: Any = None, home: str = "/h", deadline: Deadline | None = None) -> EndpointPlace:
    facts: Any = SimpleNamespace(home=home)
    return EndpointPlace(session, "python3", facts, deadline=deadline)


@pytest.mark.parametrize(("cluster", "host"), [("c", "h2"), ("other", "h1")])
def test_a_name_is_that_of_one_endpoint_also_on_two_hosts_of_a_cluster(
    cluster: str, host: str
) -> None:
    endpoint = Deployed("m", "c", "h1", 8501, None)
    records.save(replace(endpoint, port=8502))
    deploying.refuse_elsewhere(endpoint)
    records.save(replace(endpoint, cluster=cluster, host=host))
    with pytest.raises(UsageError):
        deploying.refuse_elsewhere(endpoint)
    assert records.find("m") == replace(endpoint, cluster=cluster, host=host)


def test_an_endpoint_that_has_ended_is_forgotten_though_its_port_is_that_of_another() -> None:
    """By now another program of the host may have it."""
    endpoint = Deployed("m", "c", "h1", 8501, None)
    records.save(endpoint)
    replies = {EndRun: Swept(0, ()), FindPort: FoundPort(None)}
    steps: list[str] = []

    def run(argv: list[str]) -> CommandResult:
        steps.append(argv[-1])
        return CommandResult(0, ())

    session: Any = SimpleNamespace(
        read=lambda path, **_: None,
        call=lambda request: replies[type(request)],
        run=run,
        remove=steps.append,
    )
    undeploying.undeploy(place(session), endpoint)
    folder, models = steps
    assert records.find("m") is None and folder == endpoint.folder
    assert ".railhead/models" in models, "without the folder nobody needs its model"


def test_the_requests_in_progress_end_before_the_processes_of_an_endpoint() -> None:
    endpoint = Deployed("m", "c", "h1", 8501, None)
    looks, calls = iter([True, True, True, False]), list[Any]()

    def call(request: Any) -> Any:
        calls.append(request)
        assert next(looks, None) is None, "its supervisor waits for them still"
        return Swept(0, ()) if isinstance(request, EndRun) else FoundPort(8501)

    def run(argv: list[str]) -> CommandResult:
        calls.append(argv)
        return CommandResult(0, ())

    session: Any = SimpleNamespace(
        read=lambda path, **_: json.dumps(STATE),
        is_running=lambda *_: next(looks),
        call=call,
        run=run,
        remove=lambda path: None,
    )
    undeploying.undeploy(place(session), endpoint)
    assert calls[:2] == [["kill", "-TERM", "7"], EndRun("m", OF_ENDPOINTS)]


def test_packages_that_serve_are_fetched_by_hash_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[str, ...]] = []

    def pip(*words: str) -> Any:
        requests.append(words)
        return SimpleNamespace(returncode=1, stderr="no network")

    monkeypatch.setattr(uv, "pip", pip)
    with pytest.raises(RailheadError, match="could not be fetched:\nno network"):
        environment._fetch(tmp_path, "3.11")
    assert {"--require-hashes", "--no-deps", "3.11", str(environment.LOCK)} < {*requests[0]}


def test_without_hosts_only_recorded_endpoints_are_known() -> None:
    with pytest.raises(Exit, match="no endpoint 'm' is deployed\n"):
        serving_tasks.undeploy(name="m")


def test_without_a_timer_any_time_to_live_is_allowed() -> None:
    check_deadline(place(deadline=Deadline("timer", None, "MISSING", "the machine")), 10 * 3600)


ANSWERS = [(0, ()), (0, ("x",)), (1, ("3.12.3",)), (0, ("3.12",)), (0, ("3.12.3; rm",))]


@pytest.mark.parametrize(("code", "tail"), ANSWERS)
def test_what_a_host_says_of_its_python_and_home_is_checked(
    code: int, tail: tuple[str, ...]
) -> None:
    session: Any = SimpleNamespace(run=lambda argv: CommandResult(code, tail))
    with pytest.raises(RailheadError, match="the runtime's Python does not work"):
        wheels.python_version(session, "python3")
    with pytest.raises(Hostile):
        place(home=tail[0] if tail else "").absolute("~/x")


def test_the_time_to_live_is_by_the_clock_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[Any] = []
    for name in ("_link_version", "start_supervisor", "_wait"):
        monkeypatch.setattr(deploying, name, lambda *_: None)
    monkeypatch.setattr(deploying, "lay_out", lambda *args: documents.append(args[2]))
    session: Any = SimpleNamespace(run=lambda argv: CommandResult(0, ("5000",)))
    endpoint = Deployed("m", "c", "h1", 8501, None)
    server = Server(["/h/python"])
    deploying.deploy(place(session), DeployRequest("m", hours=1), endpoint, "/m", server)
    assert documents[0].until == 5000 + 3600
    broken: Any = SimpleNamespace(run=lambda argv: CommandResult(0, ("nan",)))
    with pytest.raises(Hostile, match="a time"):
        clock_of(broken)


@pytest.mark.parametrize("text", ["", "{}", '{"rows": [1], "accuracy": null}', '{"rows": 1}'])
def test_predictions_that_are_not_valid_are_refused(text: str) -> None:
    with pytest.raises(Hostile):
        Predictions.read(text)


def test_predictions_as_text() -> None:
    rows = [{"prediction": "7", "score": 0.9, "right": "7"}, {"prediction": "1", "right": "2"}]
    predictions = Predictions.read(json.dumps({"rows": rows, "accuracy": 0.5, "outputs": []}))
    assert predictions.lines() == [
        "   0  7  0.900  right: 7",
        "   1  1  right: 2  WRONG",
        "accuracy 0.5000 on 2 samples",
    ]


def test_escapes_of_a_prediction_are_not_for_a_terminal() -> None:
    rows = [{"prediction": "\x1b[2Jx", "right": "\x1b[2Jx"}]
    (row,) = Predictions.read(json.dumps({"rows": rows})).rows
    assert "\x1b" not in f"{row.prediction}{row.right}"


def test_a_number_that_is_none_is_not_shown() -> None:
    rows = [{"prediction": "7", "score": 10**400}]
    predictions = Predictions.read(json.dumps({"rows": rows, "accuracy": 10**400}))
    assert predictions.lines() == ["   0  7"]


@pytest.mark.parametrize(("name", "message"), [("no.npy", "no such file"), ("x.txt", "one of")])
def test_a_file_that_cannot_be_sent_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()
    with pytest.raises(UsageError, match=message):
        check_file(tmp_path / name)
