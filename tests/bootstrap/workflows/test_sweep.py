"""`fab sweep`: which trials there are, which are hopeless, and what is compared."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from standins.options import program
from standins.pulumi_command import PulumiCommand
from standins.runs.trained_runs import INVENTORY, Runs, request

from bootstrap.console.threads import side_by_side
from bootstrap.console.wait import wait_until
from bootstrap.errors import (
    HostsBusy,
    HostsNotReady,
    NoCapacity,
    RailheadError,
    RunFailed,
    RunNotReached,
    UsageError,
)
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import stop
from bootstrap.lifecycle.consent import unfetched
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.plan.cluster import Options
from bootstrap.report.facts import read_run
from bootstrap.runs import start
from bootstrap.workflows import attach, bootstrap
from bootstrap.workflows.series import sweep
from bootstrap.workflows.series.grid import Trial, read_trials
from bootstrap.workflows.series.sweep_file import alone, record
from bootstrap.workflows.series.trials import Trials, run_sweep, run_trials
from railhead.documents.codec import encode
from railhead.documents.options.runs import StartOptions, SweepOptions


@pytest.fixture
def hosts(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)


@pytest.fixture
def stopped(hosts: Runs, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts are machines of a stack; returns the names of the clusters that were stopped."""
    calls: list[str] = []
    hosts.whole = replace(INVENTORY, cloud="aws")
    monkeypatch.setattr(stop, "stop", lambda inventory, *_, **__: calls.append(inventory.name))
    return calls


def of_rates(*rates: float, at_once: int = 1) -> sweep.Sweep:
    trials = [(Trial({"learning_rate": str(rate)}), request(rate)) for rate in rates]
    return sweep.Sweep(trials, Options(), Path("results/sweep-1").resolve(), at_once=at_once)


def test_trials_run_one_after_another_and_the_best_is_named(
    hosts: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    page = run_trials(INVENTORY, of_rates(0.5, 0.9, 0.1))
    out = capsys.readouterr().out
    assert "best of 3 trials: learning_rate=0.9, accuracy 90.00 %" in out
    assert hosts.cancelled == [hosts.started[2]], "the last one was hopeless"
    assert hosts.started[1] in page.read_text()
    assert [read_run(run_id).state for run_id in hosts.started] == [
        "succeeded", "succeeded", "ended early",
    ]  # fmt: skip
    run_trials(INVENTORY, of_rates(0.5, 0.9, 0.1))
    assert f"learning_rate=0.1  ended early, run {hosts.started[2]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metric", "rates", "best"),
    [
        ("val_accuracy", (0.5, 0.9, 0.1), 0.9),
        ("val_loss", (0.5, 0.1, 0.9), 0.1),
        ("val_mae", (0.5, 0.1, 0.9), 0.1),
    ],
)
def test_the_metric_decides_whether_higher_is_better(
    hosts: Runs,
    capsys: pytest.CaptureFixture[str],
    metric: str,
    rates: tuple[float, ...],
    best: float,
) -> None:
    """For the trial that is ended early, and for the best one."""
    hosts.metric = metric
    run_trials(INVENTORY, of_rates(*rates))
    out = capsys.readouterr().out
    assert f"best of 3 trials: learning_rate={best}, " in out
    assert ("(lower is better)" in out) == (best == 0.1)
    assert hosts.cancelled == [hosts.started[2]]
    hosts.cancelled.clear()
    others = replace(of_rates(*sorted(rates, key=lambda rate: abs(rate - best), reverse=True)),
                     folder=Path("results/sweep-2").resolve())  # fmt: skip
    run_trials(INVENTORY, others)
    assert hosts.cancelled == [], "each is better than those before"


def test_hopeless_trials_may_run_to_their_end(hosts: Runs) -> None:
    run_trials(INVENTORY, replace(of_rates(0.5, 0.9, 0.1), early_end=False))
    assert hosts.cancelled == []


def test_the_same_command_continues_where_it_was_interrupted(hosts: Runs) -> None:
    hosts.fault["20261122-100001-0001"] = lambda: RunFailed("lost; the run itself continues")
    with pytest.raises(RunFailed, match="2 of 3 trials did not end: lost"):
        run_trials(INVENTORY, of_rates(0.5, 0.9, 0.1))
    assert len(hosts.started) == 2
    run_trials(INVENTORY, of_rates(0.5, 0.9, 0.1))
    assert len(hosts.started) == 3, "the second one was followed, only the third was started"


def test_a_trial_on_hosts_that_are_given_up_is_trained_again(
    hosts: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts.fault["follow on h1"] = lambda: LOST
    with pytest.raises(RunFailed, match="lost"):
        run_trials(INVENTORY, of_rates(0.5))
    hosts.whole = Inventory("d", INVENTORY.hosts[1:])
    run_trials(hosts.whole, of_rates(0.5))
    assert "was on other hosts" in capsys.readouterr().out
    assert [*hosts.hosts.values()] == ["h1 h2", "h2"]


def test_trials_at_once_are_each_on_their_own_hosts(
    hosts: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts.before_records = threading.Barrier(2, timeout=60).wait  # breaks if only one is there
    run_trials(INVENTORY, of_rates(0.5, 0.9, at_once=2))
    assert sorted(hosts.hosts.values()) == ["h1", "h2"]
    out = capsys.readouterr().out
    assert "trial 2 of 2 on h" in out and "best of 2 trials: learning_rate=0.9" in out


LOST = RunFailed("lost; the run itself continues")
UNREACHABLE = HostsNotReady("1 of 1 hosts cannot be reached", {"h2": "refused"})


@pytest.mark.parametrize(
    ("when", "fault", "kind"),
    [
        ("start on h2", UsageError("no disk"), RailheadError),
        ("follow on h2", LOST, RunFailed),
        ("follow on h2", UNREACHABLE, RunFailed),
        ("start on h2", NoCapacity("no room"), RailheadError),
        ("follow on h2", RunNotReached("lost; the run continues"), RunFailed),
    ],
)
def test_a_lost_host_ends_its_slice_alone(
    hosts: Runs,
    capsys: pytest.CaptureFixture[str],
    when: str,
    fault: RailheadError,
    kind: type[RailheadError],
) -> None:
    lost = threading.Event()

    def lose() -> Exception:
        lost.set()
        return fault

    hosts.fault[when] = lose
    hosts.before_records = lambda: lost.wait(60)
    of_four = replace(of_rates(0.5, 0.6, 0.7, 0.8, at_once=2), early_end=False)
    with pytest.raises(
        RailheadError, match=f"^1 of 4 trials did not end: {fault.message[:4]}"
    ) as e:
        run_trials(INVENTORY, of_four)
    assert e.value.code == (4 if fault.code == 4 else 1)
    assert type(e.value) is kind, "only a run that may be in progress keeps machines running"
    out = capsys.readouterr().out
    assert out.count("  ok, run ") == 3 and out.count("  did not end: ") == 1
    started = len(hosts.started)
    run_trials(INVENTORY, of_four)
    assert len(hosts.started) - started == (1 if when.startswith("start") else 0)
    assert capsys.readouterr().out.count("  ok, run ") == 4


def test_a_trial_that_was_not_started_goes_to_another_slice(
    hosts: Runs, stopped: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused = threading.Event()

    def refuse() -> Exception:
        refused.set()
        return UNREACHABLE

    hosts.fault["start on h2"] = refuse
    hosts.before_records = lambda: refused.wait(60)
    of_four = replace(of_rates(0.5, 0.6, 0.7, 0.8, at_once=2), early_end=False)
    run_trials(hosts.whole, of_four)
    assert {*hosts.hosts.values()} == {"h1"} and len(hosts.started) == 4 and stopped == ["c"]
    out = capsys.readouterr().out
    assert out.count("  ok, run ") == 4 and "did not end" not in out


def test_a_trial_that_no_slice_can_start_ends_the_sweep(hosts: Runs, stopped: list[str]) -> None:
    hosts.fault |= {f"start on {name}": lambda: UNREACHABLE for name in ("h1", "h2")}
    with pytest.raises(HostsNotReady):
        run_trials(hosts.whole, of_rates(0.5, 0.6, 0.7, at_once=2))
    assert not hosts.started and stopped == ["c"]


@pytest.mark.parametrize(
    ("culprit", "runs"),
    [
        ({"rank": None, "host": "h2", "lines": []}, 2),
        ({"rank": 1, "host": "h2", "lines": []}, 1),
        ({"rank": None, "host": None, "lines": []}, 1),
        (None, 1),
    ],
)
def test_a_trial_that_lost_a_host_is_trained_again(
    hosts: Runs, capsys: pytest.CaptureFixture[str], culprit: Any, runs: int
) -> None:
    run_trials(INVENTORY, of_rates(0.5))
    result = Path("results/sweep-1", hosts.started[0], "result.json")
    result.write_text(json.dumps({"state": "failed", "culprit": culprit}))
    run_trials(INVENTORY, of_rates(0.5))
    assert len(hosts.started) == runs
    again = f"run {hosts.started[0]} of learning_rate=0.5 lost h2: the trial is trained again"
    assert (again in capsys.readouterr().out) is (runs == 2)


def press_ctrl_c() -> None:
    """As soon as the main thread waits for the others."""

    def waits() -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        code = [frame.f_code for frame, _ in traceback.walk_stack(frame)]
        return any(
            c.co_name == "wait" and c.co_filename.endswith("console/threads.py") for c in code
        )

    assert wait_until(waits, seconds=60, every=0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_cancels_the_runs_of_all_slices(
    hosts: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, cancelled = threading.Barrier(2, timeout=60), threading.Event()

    def interrupt() -> None:
        if both.wait() == 0:
            press_ctrl_c()
        assert cancelled.wait(60)

    def cancel(_: Inventory, run_id: str) -> None:
        hosts.cancelled.append(run_id)
        if len(hosts.cancelled) == 2:
            cancelled.set()

    hosts.before_records = interrupt
    monkeypatch.setattr(attach, "cancel", cancel)
    with pytest.raises(RailheadError, match="none of its runs is in progress"):
        run_trials(INVENTORY, of_rates(0.5, 0.6, 0.7, at_once=2))
    assert sorted(hosts.cancelled) == sorted(hosts.started) and len(hosts.started) == 2
    hosts.before_records = lambda: None
    run_trials(INVENTORY, of_rates(0.5, 0.6, 0.7, at_once=2))
    assert len(hosts.started) == 5, "the trials that were cancelled begin again"


def test_ctrl_c_keeps_a_trial_that_had_succeeded(
    hosts: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def finish(_: object) -> None:
        if not interrupted.is_set():
            press_ctrl_c()
            assert interrupted.wait(60)

    interrupted = threading.Event()
    monkeypatch.setattr(attach, "finish", finish)
    monkeypatch.setattr(attach, "cancel", lambda *_: interrupted.set())
    with pytest.raises(RailheadError, match="the sweep was interrupted"):
        run_trials(INVENTORY, of_rates(0.5, 0.6))
    assert f"learning_rate=0.5  ok, run {hosts.started[0]}" in capsys.readouterr().out
    run_trials(INVENTORY, of_rates(0.5, 0.6))
    assert len(hosts.started) == 2, "the first trial is not trained again"


def test_ctrl_c_leaves_trials_of_an_earlier_command_that_it_has_not_cancelled(
    hosts: Runs, stopped: list[str]
) -> None:
    def interrupt() -> None:
        press_ctrl_c()
        assert wait_until(lambda: bool(hosts.cancelled), seconds=60, every=0.01)

    hosts.fault |= {f"follow on {name}": lambda: LOST for name in ("h1", "h2")}
    with pytest.raises(RunFailed, match="lost"):
        run_trials(hosts.whole, of_rates(0.5, 0.6, at_once=2))
    hosts.before_records = interrupt
    with pytest.raises(RunFailed, match="trials of an earlier command may be in progress"):
        run_trials(hosts.whole, replace(of_rates(0.5, 0.6), early_end=False))
    assert len(hosts.cancelled) == 1 and len(hosts.started) == 2 and not stopped


def test_a_sweep_whose_trials_have_ended_needs_no_host(hosts: Runs) -> None:
    assert not sweep.has_ended(of_rates(0.5))
    run_trials(INVENTORY, of_rates(0.5))
    assert sweep.has_ended(of_rates(0.5)) and not sweep.has_ended(of_rates(0.5, 0.6))
    (Path("results/sweep-1") / hosts.started[0] / "result.json").unlink()
    assert not sweep.has_ended(of_rates(0.5))


def test_a_wait_that_ctrl_c_has_ended_can_be_repeated() -> None:
    go, done = threading.Event(), []

    def work(item: int) -> None:
        assert go.wait(60)
        done.append(item)

    wait = side_by_side(work, [1])
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=press_ctrl_c).start()
        wait()
    threading.Timer(0.2, go.set).start()
    wait()
    assert done


def press_ctrl_c_at_each_start(patch: pytest.MonkeyPatch) -> None:
    """Before the sweep knows that the run is in progress."""

    def begin(trials: Trials, *args: Any) -> bool:
        press_ctrl_c()
        wait_until(lambda: trials.interrupted, seconds=60, every=0.01)
        return begun(trials, *args)

    begun = Trials._begin
    patch.setattr(Trials, "_begin", begin)


def test_ctrl_c_before_a_run_of_an_earlier_command_is_followed_leaves_it(
    hosts: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.fault["follow on h1"] = lambda: LOST
    with pytest.raises(RunFailed, match="lost"):
        run_trials(INVENTORY, of_rates(0.5, 0.6))
    press_ctrl_c_at_each_start(monkeypatch)
    with pytest.raises(RunFailed, match="trials of an earlier command may be in progress"):
        run_trials(INVENTORY, of_rates(0.5, 0.6))
    assert len(hosts.started) == 1 and not hosts.cancelled
    assert unfetched(INVENTORY) == hosts.started


@pytest.mark.parametrize("cancels", [True, False])
def test_ctrl_c_while_a_run_is_started_leaves_no_results_to_fetch(
    hosts: Runs, monkeypatch: pytest.MonkeyPatch, cancels: bool
) -> None:
    """Spot machines are not ended while results are missing here."""

    def cancel(_: Inventory, run_id: str) -> None:
        raise RailheadError("processes are left")

    press_ctrl_c_at_each_start(monkeypatch)
    if not cancels:
        monkeypatch.setattr(attach, "cancel", cancel)
    with pytest.raises(RailheadError, match="the sweep was interrupted") as caught:
        run_trials(INVENTORY, of_rates(0.5, 0.6))
    assert len(hosts.started) == 1
    assert unfetched(INVENTORY) == ([] if cancels else hosts.started)
    assert isinstance(caught.value, RunFailed) is not cancels


@pytest.mark.parametrize(
    ("error", "stopped"),
    [
        (None, 1),
        (KeyboardInterrupt(), 0),  # a run may be in progress
        (RunFailed("lost"), 0),
        (HostsBusy("h1 is busy with run X"), 0),
        (UsageError("no host"), 1),
    ],
)
def test_machines_of_a_stack_stop_after_the_last_run(
    error: BaseException | None, stopped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    lines: list[str] = []
    monkeypatch.setattr(stop, "stop", lambda inventory, *_, **__: calls.append(inventory.name))
    stack = replace(INVENTORY, cloud="aws")
    assert not stop.policy_between(stack).stop and stop.policy_between(INVENTORY).stop
    for inventory in (stack, INVENTORY):
        expected = pytest.raises(type(error)) if error else nullcontext()
        with expected, stop.after_all_runs(inventory, lines.append):
            if error:
                raise error
    assert len(calls) == stopped and len(lines) == 1 - stopped


def test_machines_of_a_stack_stop_when_the_last_slice_has_ended(
    hosts: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    hosts.whole = replace(INVENTORY, cloud="aws")
    results = Path("results/sweep-1")
    monkeypatch.setattr(
        stop, "stop", lambda *_, **__: ended.append(len([*results.glob("*/result.json")]))
    )
    run_trials(hosts.whole, of_rates(0.5, 0.6, 0.7, 0.8, at_once=2))
    assert ended == [4]


def test_the_next_trial_is_on_a_machine_that_was_created_again(
    hosts: Runs, pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_trials(hosts.second_created_again(monkeypatch, pulumi), of_rates(0.5, 0.6))
    assert [*hosts.hosts.values()] == ["h1 h2"] * 2


@pytest.mark.parametrize("before", [0, 1])
def test_the_run_of_somebody_else_keeps_its_machines(
    hosts: Runs, stopped: list[str], before: int
) -> None:
    """Also when trials have ended before it, or another slice fails first."""
    if before:
        run_trials(hosts.whole, of_rates(0.5))
    stopped.clear()
    hosts.fault["start on h1"] = lambda: HostsBusy("h1 is busy with run X")
    hosts.fault["start on h2"] = lambda: UNREACHABLE
    trials = of_rates(0.5, 0.6, 0.7, at_once=2)
    with pytest.raises(RailheadError, match="h1 is busy with run X"):
        run_trials(hosts.whole, trials)
    assert not stopped


def test_hosts_that_cannot_be_reached_keep_the_trials_that_run_there(
    hosts: Runs, stopped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UNREACHABLE

    hosts.fault["20261122-100000-0001"] = lambda: LOST
    with pytest.raises(RunFailed, match="lost"):
        run_trials(hosts.whole, of_rates(0.5, 0.6))
    monkeypatch.setattr(bootstrap, "bootstrap_idle", fail)
    with pytest.raises(RunFailed, match="1 of 1 hosts cannot be reached"):
        run_trials(hosts.whole, of_rates(0.5, 0.6))
    assert not stopped, "the first trial may be in progress"
    with pytest.raises(HostsNotReady):
        run_trials(hosts.whole, replace(of_rates(0.7), folder=Path("results/other").resolve()))
    assert stopped == ["c"], "no trial of this sweep has begun"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), TypeError("not a text")])
def test_an_unexpected_error_ends_its_slice_alone(
    hosts: Runs, stopped: list[str], capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    hosts.fault["follow on h1"] = lambda: error
    what = f"did not end: unexpected {type(error).__name__}: "
    with pytest.raises(RunFailed, match=f"1 of 3 trials {what}"):
        run_trials(hosts.whole, of_rates(0.5, 0.6, 0.7, at_once=2))
    assert not stopped, "the run of the trial may be in progress"
    out = capsys.readouterr().out
    assert out.count("  ok, run ") == 2 and out.count(f"  {what}") == 1
    assert "best of " in out


@pytest.mark.parametrize("run_id", ["20260101-000000-aaaa", "../../x", ""])
def test_a_run_that_is_not_known_here_is_trained_again(
    hosts: Runs, stopped: list[str], capsys: pytest.CaptureFixture[str], run_id: str
) -> None:
    trials = of_rates(0.5)
    trials.folder.mkdir(parents=True)
    record = {"schema": 1, "runs": {"learning_rate=0.5": run_id}}
    (trials.folder / "sweep.json").write_text(json.dumps(record))
    run_trials(hosts.whole, trials)
    assert f"run {run_id} of learning_rate=0.5 is not known here" in capsys.readouterr().out
    assert len(hosts.started) == len(stopped) == 1


def test_the_same_sweep_in_another_terminal_is_refused(hosts: Runs, stopped: list[str]) -> None:
    trials = of_rates(0.5)
    with alone(trials.folder), pytest.raises(UsageError, match="in progress in another terminal"):
        run_trials(hosts.whole, trials)
    assert not hosts.started and not stopped
    run_trials(hosts.whole, trials)
    assert len(hosts.started) == 1


def test_hosts_with_a_run_are_refused_as_busy() -> None:
    facts = SimpleNamespace(run_processes=[SimpleNamespace(run_id="X")])
    with pytest.raises(HostsBusy, match="h1 is busy with run X"):
        start.refuse_second(cast(Any, SimpleNamespace(facts={"h1": facts})))


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ({"preset": "smoke"}, "sweep-2c1b1130"),
        (
            {"script": "t.py", "args": "--a 1", "data": ("x=/d",), "env": ("A=b",),
             "secrets": ("S",), "metrics": ("l=(.)",)},
            "sweep-75df9381",
        ),
    ],
)  # fmt: skip
def test_a_sweep_of_an_earlier_version_is_found_again(
    texts: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are those of versions that recorded the options as they were typed."""
    monkeypatch.setattr(Path, "cwd", lambda: Path("/tmp/swdir"))
    trials = read_trials({"learning_rate": ("0.1", "0.01")})
    assert sweep.sweep_folder(Path("r"), program(**texts), trials).name == name


def test_the_folder_of_a_sweep_follows_from_its_command(tmp_path: Path) -> None:
    trials = read_trials({"a": ("1", "2")})
    first = sweep.sweep_folder(tmp_path, program(), trials)
    assert first == sweep.sweep_folder(tmp_path, program(), trials)
    assert first != sweep.sweep_folder(tmp_path, program(preset="smoke"), trials)
    assert first != sweep.sweep_folder(tmp_path, program(), trials[:1])


def test_a_sweep_whose_program_has_changed_says_so(
    hosts: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where all its trials have ended, and where it continues."""

    def again() -> str:
        options = SweepOptions(values={"learning_rate": ("0.5", "0.9")}, to_end=True)
        status = ClusterStatus(INVENTORY, {}, "here")
        run_sweep(lambda: status, program(preset="digits"), options, StartOptions(), Path.cwd())
        return capsys.readouterr().out

    assert "has changed" not in again() + again()
    run_id = hosts.started[1]
    document = local_state.recorded_run(run_id).run
    assert document
    local_state.change_run(run_id, document=encode(replace(document, bundle="0" * 64)))
    assert again().count(f"the program has changed since run {run_id}") == 1
    for folder in Path.cwd().glob("sweep-*"):
        record(folder, "learning_rate=0.5", None)
    out = again()
    assert out.index(f"the program has changed since run {run_id}") < out.index("trial 1 of 2")
    assert len(hosts.started) == 3


def test_what_retries_need_is_printed_once_for_all_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_hosts() -> Any:
        raise UsageError("no hosts")

    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import keras\n")
    options = SweepOptions(values={"rate": ("1", "2")})
    with pytest.raises(UsageError, match="no hosts"):
        run_sweep(no_hosts, program(script="train.py"), options, StartOptions(retries=2), tmp_path)
    assert capsys.readouterr().out.count("--retries 2: until the script writes checkpoints") == 1
