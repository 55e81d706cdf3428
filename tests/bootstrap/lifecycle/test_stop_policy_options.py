"""Machines around a run: options for its end, the cloud's deadline, and the report afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from standins import registered_cloud
from standins.options import typed
from standins.pulumi_command import PulumiCommand, exported, resource
from standins.runs.run_documents import run_json

from bootstrap.clouds.base import Cost, Deadline, InstanceState
from bootstrap.console.output import quiet
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsFailed, RunFailed, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.clouds import CLOUDS
from bootstrap.inventory.document import to_document
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import stack_machines, stop, stop_policy
from bootstrap.runs.follow import RunConnection
from bootstrap.runs.launch import StopPolicy
from bootstrap.runs.run import Run
from bootstrap.ssh.session import ConnectionLost
from bootstrap.workflows import attach
from railhead.documents.cluster import ClusterPrice
from railhead.documents.codec import encode
from railhead.documents.options.runs import EndingOptions
from railhead.documents.runs.result import Result
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.runs.state import Machines

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
PRICE = ClusterPrice(7.824, "USD", "x", "2026-11-01")
OURS = Inventory("dev", (Host("m1", "192.0.2.1"),), cloud="aws", price=PRICE, stack="dev")


def test_options_for_the_end() -> None:
    assert policy() == StopPolicy(20, True, None)
    assert policy(keep="0", max_hours="1.5") == StopPolicy(0, True, 1.5)
    assert policy(stop=True) == StopPolicy(20, False, None), "--no-stop was typed"


def policy(**texts: Any) -> StopPolicy:
    return stop_policy.stop_policy_of(typed(EndingOptions, **texts))


WRONG = [
    ({"keep": "x"}, "--keep: 'x' is not a number from 0 to 1440"),
    ({"keep": "5", "stop": True}, "contradict each other"),
]


@pytest.mark.parametrize("texts, output", WRONG)
def test_wrong_options_for_the_end(texts: Any, output: str) -> None:
    with pytest.raises(UsageError, match=output):
        policy(**texts)


@pytest.mark.parametrize("ending", [StopPolicy(keep_minutes=5), StopPolicy(stop=False)])
def test_options_for_a_stop_are_refused_where_no_run_stops_machines(ending: StopPolicy) -> None:
    named = Inventory("them", (Host("m1", "192.0.2.1"),))
    with pytest.raises(UsageError, match="those of them are never stopped by a run"):
        stop_policy.check_before_run(named, ending)
    assert stop_policy.check_before_run(named, StopPolicy(max_hours=1.0)) == ""


def deadline(hours: float | None, state: str = "armed") -> Deadline:
    end = None if hours is None else NOW + timedelta(hours=hours)
    return Deadline("scheduled-stop", end, state, "EventBridge Scheduler", "8 h from each start")


@pytest.mark.parametrize(
    "present, hours, output",
    [
        (None, 100, ""),
        (deadline(6.5), None, "at 2026-11-21 18:30 UTC, 6.5 h left"),
        (deadline(6.5), 6.5, "6.5 h left"),
        (deadline(6.5), 12, "6.5 h left"),  # it is moved before the run starts
        (deadline(None), 100, "by itself: 8 h from each start"),
    ],
)
def test_a_deadline_that_is_far_enough(
    present: Deadline | None, hours: float | None, output: str
) -> None:
    assert output in stop_policy.check_deadline(present, StopPolicy(max_hours=hours), NOW)


@pytest.mark.parametrize(
    "present, hours, output",
    [
        (deadline(1, "MISSING"), None, "deadline of these machines is MISSING"),
        (deadline(-1, "past"), None, "deadline of these machines is past"),
        (
            replace(deadline(6.5), fixed=True),
            6.6,
            "--max-hours 6.6 is after 2026-11-21 18:30 UTC, when the cloud stops these machines",
        ),
    ],
)
def test_a_deadline_that_is_not(present: Deadline, hours: float | None, output: str) -> None:
    with pytest.raises(UsageError, match=output) as caught:
        stop_policy.check_deadline(present, StopPolicy(max_hours=hours), NOW)
    hint = "fab stop, then fab start --hours 6.6" if present.fixed else "fab extend --hours HOURS"
    assert (caught.value.hint, caught.value.code) == (hint, 2)


def write_run(folder: Path, keep_minutes: int | None = 20) -> None:
    """run.json of a run whose machines stop after it; None: they do not."""
    stop = None if keep_minutes is None else {"argv": [["off"]], "keep_minutes": keep_minutes}
    (folder / "run.json").write_text(json.dumps(run_json(stop=stop)))


def after(tmp_path: Path, state: str, keep_minutes: int | None) -> str:
    """The lines after a run; its result has a byte that is no text, which a host may send."""
    write_run(tmp_path, keep_minutes)
    result = f'{{"state": "{state}", "ended": "2026-11-21T12:00:00Z", "why": "\xff"}}'
    (tmp_path / "result.json").write_text(result, encoding="latin-1")
    lines: list[str] = []
    stop_policy.wait_after_run(OURS, Run("r1", tmp_path), lines.append)
    return "\n".join(lines)


def test_what_is_reported_of_machines_that_go_on(tmp_path: Path) -> None:
    text = after(tmp_path, "failed", 20)
    assert text.startswith("the machines are kept until 12:20 UTC (20 min, 7.82 USD per hour)")
    assert "stop now" in after(tmp_path, "failed", 0)
    assert "keep running (--no-stop), 7.82 USD per hour" in after(tmp_path, "succeeded", None)


def test_a_run_that_failed_says_what_becomes_of_its_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path)
    result = Result(state="failed", exit_code=3, ended="2026-11-21T12:00:00Z")
    (tmp_path / "result.json").write_text(json.dumps(encode(result)))
    with pytest.raises(RunFailed, match="mpirun failed"), quiet():
        attach.judge(RunConnection(Run("r1", tmp_path), OURS, cast(Any, None)), result)
    assert "the machines are kept until 12:20 UTC (20 min, 7.82" in capsys.readouterr().out


def test_a_run_that_never_begins_leaves_machines_running_and_reports_so() -> None:
    lines: list[str] = []
    with pytest.raises(UsageError), stop_policy.preparing(OURS, lines.append):
        raise UsageError("no")
    assert lines == [
        "no run was started; the machines keep running, 7.82 USD per hour: fab stop --stack dev"
    ]
    named = Inventory("named", OURS.hosts)
    with pytest.raises(UsageError), stop_policy.preparing(named, lines.append):
        raise UsageError("no")
    assert len(lines) == 1


def test_a_supervisor_that_died_stops_nothing_and_that_is_reported(tmp_path: Path) -> None:
    write_run(tmp_path)
    lines: list[str] = []
    stop_policy.wait_after_run(OURS, Run("r1", tmp_path), lines.append)
    assert lines == [
        "no supervisor is running to stop the machines, 7.82 USD per hour: fab stop --stack dev"
    ]


class Stopping:
    """A cloud that says stopped after some seconds, if ever."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.time = seconds, 0.0

    def instance_states(self) -> dict[str, InstanceState]:
        state = "stopped" if self.time >= self.seconds else "stopping"
        return {"m1": InstanceState(state, None, "EC2", "12:00")}

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.sleep)


def test_a_success_waits_until_the_cloud_reports_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Stopping(90)
    registered_cloud.register(monkeypatch, "aws", fake)
    write_run(tmp_path)
    (tmp_path / "result.json").write_text('{"state": "succeeded"}')
    lines: list[str] = []
    local_state.save_run(RunRecord("r1", "c", str(tmp_path)))
    stop_policy.wait_after_run(OURS, Run("r1", tmp_path), lines.append, clock=fake.clock())
    assert lines[0] == "stopping: m1 stopping" and lines[-1] == "[m1] stopped (EC2, 12:00)"
    assert local_state.recorded_run("r1").stops == {"m1": "12:00"}, "for fab report"
    never = Stopping(1e9)
    registered_cloud.register(monkeypatch, "aws", never)
    with pytest.raises(HostsFailed, match="machines do not stop") as caught:
        stop_policy.wait_after_run(OURS, Run("r1", tmp_path), lines.append, clock=never.clock())
    assert caught.value.hint == "fab teardown" and never.time < 700


class Instances:
    """EC2 with one running instance, i-2, of an inventory; another one is gone."""

    running, stopped = "i-2", list[str | None]()

    def __init__(self, inventory: Inventory) -> None:
        self.hosts = inventory.hosts

    def instance_states(self) -> dict[str, InstanceState]:
        return {host.name: self._state(host.id) for host in self.hosts}

    def _state(self, machine: str | None) -> InstanceState:
        is_running = machine == self.running and machine not in self.stopped
        state = "gone" if machine != self.running else "running" if is_running else "stopped"
        return InstanceState(state, None, "EC2", f"at {machine}", certain=True)

    def cannot_stop(self) -> list[str]:
        return []

    def stop(self) -> None:
        self.stopped.extend(host.id for host in self.hosts)

    def costs(self) -> list[Cost]:
        return []


def test_a_machine_that_was_created_again_meanwhile_is_the_one_that_stops(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pulumi: PulumiCommand
) -> None:
    before, now = (replace(OURS, hosts=(replace(OURS.chief, id=i),)) for i in ("i-1", "i-2"))
    component = resource("railhead:aws:Cluster", outputs={"document": to_document(now)})
    pulumi.answers(stack_export=exported(component))
    monkeypatch.setattr(Instances, "stopped", [])
    monkeypatch.setitem(
        CLOUDS, "aws", replace(CLOUDS["aws"], instances=f"{__name__}:{Instances.__name__}")
    )
    with stop.after_all_runs(before, print):
        assert not Instances.stopped
    assert Instances.stopped == ["i-2"]
    write_run(tmp_path)
    (tmp_path / "result.json").write_text('{"state": "succeeded"}')
    local_state.save_run(RunRecord("r1", "c", str(tmp_path)))
    stop_policy.wait_after_run(before, Run("r1", tmp_path), print)
    assert local_state.recorded_run("r1").stops == {"m1": "at i-2"}
    second = replace(before.chief, name="m2", address="10.0.0.9", id="i-3")
    larger = replace(before, hosts=(before.chief, second))
    assert stack_machines.of_now(larger, print) is larger, "the stack has one of the two"
    pulumi.answers(stack_export="exit 1")
    lines: list[str] = []
    assert stack_machines.of_now(before, lines.append) is before and "m1" in lines[0]


@pytest.mark.parametrize("lost", [False, True])
def test_a_machine_that_is_left_to_an_endpoint_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    fake = Stopping(1e9)
    registered_cloud.register(monkeypatch, "aws", fake)
    write_run(tmp_path)
    (tmp_path / "result.json").write_text('{"state": "succeeded"}')
    machines = {
        "phase": "stopped",
        "results": "fetched",
        "stopped": {"m1": "left to endpoint digits", "m2": ""},
    }
    state = {"state": "succeeded", "pid": 5, "heartbeat": 1.0, "machines": machines}

    class Chief:
        def read(self, path: str, *, silence: float) -> str:
            if lost:
                raise ConnectionLost("it stopped")
            return json.dumps(state)

    lines: list[str] = []
    wait = partial(stop_policy.wait_after_run, chief=cast(Any, Chief()), clock=fake.clock())
    if lost:
        with pytest.raises(HostsFailed):
            wait(OURS, Run("r1", tmp_path), lines.append)
    else:
        wait(OURS, Run("r1", tmp_path), lines.append)
        assert lines[-1].startswith("[m1] keeps running: left to endpoint digits; fab status")
        assert fake.time < 60


def test_the_stop_machines_text() -> None:
    keeping = Machines("keeping", "fetched", until="2026-11-21T12:20:00Z")
    assert (
        stop_policy.describe_phase(keeping)
        == "machines: keeping, kept until 12:20 UTC; results fetched"
    )
    stops = Machines("stopping", "only on h1", stopped={"h2": "ok"})
    assert stop_policy.describe_phase(stops) == "machines: stopping, h2: ok; results only on h1"


def test_waiting_for_a_run_that_stalls_needs_a_deadline() -> None:
    named = Inventory("named", OURS.hosts)
    with pytest.raises(UsageError, match="--on-stall wait without a deadline"):
        stop_policy.check_before_run(named, StopPolicy(on_stall="wait"))
    assert stop_policy.check_before_run(named, StopPolicy(on_stall="wait", max_hours=8.0)) == ""
