"""A run that starts again after a failure: the supervisor's part, with a command of the test in
place of mpirun. What it does on real hosts is in tests/e2e."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import programs
from standins.runs.run_documents import run_document
from standins.runs.supervised_run import PROGRAM, Run, is_alive, says
from standins.waiting import wait_until

from bootstrap.host.agent.temporary import make_temporary
from bootstrap.host.attempts import points, restarts
from bootstrap.host.attempts.points import Point
from bootstrap.host.attempts.restarts import Ended, Restarts, Times
from bootstrap.host.base.programs import REPLACING
from bootstrap.host.causes import retry
from bootstrap.host.causes.causes import Failure, diagnosed
from bootstrap.host.output.recorded import metric_numbers
from bootstrap.host.run import time_left
from bootstrap.host.run.end_processes import drop_temporary
from bootstrap.untrusted.records import records
from railhead.documents.agent.runs import MakeTemporary
from railhead.documents.codec import decode, encode
from railhead.documents.runs.manifest import Outputs
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.run import RunDocument, RunHost, Script
from railhead.documents.runs.stall import Stall

KILLED = "echo 'mpirun noticed that process rank 1 with PID 7 on node b exited on signal 9' >&2"
FAILS = f"{KILLED}; exit 137"
HOSTS = tuple(RunHost(name, f"10.0.0.{n}", None, 1) for n, name in enumerate("ab", 1))
ENDED = '@railhead {"kind": "ended", "exit": 1}'


@pytest.fixture
def in_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the supervisor of the run r1."""
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("RAILHEAD_RUN", "r1")


def checkpoint(step: int) -> str:
    """sh that writes a checkpoint as the built-in training does."""
    return (
        f"mkdir -p checkpoints/step-{step:08d}; echo 1 >checkpoints/step-{step:08d}/manifest.json"
    )


def progress(step: int) -> str:
    return says(
        0, json.dumps({"kind": "progress", "step": step, "epoch": 1, "loss": 1.0 / step})
    ).replace('{"kind', '@railhead {"kind')


def recorded(count: int) -> str:
    """sh that waits until the supervisor has recorded so many values of metrics."""
    lines = """$(grep -c '"metric"' results/metrics.jsonl)"""
    return f'until [ "{lines}" -ge {count} ] 2>/dev/null; do sleep 0.05; done 2>/dev/null'


def start(step: int) -> str:
    return says(0, "@railhead " + json.dumps({"kind": "start", "step": step, "epoch": 0}))


def raises(line: str) -> str:
    """sh of a rank that ends with an exception."""
    return f"{says(1, line)}; {says(1, ENDED)}; exit 1"


def by_attempt(*commands: str) -> str:
    """sh that does another thing in each attempt."""
    cases = "".join(f"{n}) {command};; " for n, command in enumerate(commands, 1))
    return f"echo x >>attempts; case $(wc -l <attempts) in {cases}*) touch never;; esac"


@pytest.mark.parametrize(("age", "least"), [("-200 seconds", 200), ("+1 hour", 0)])
def test_a_killed_rank_is_a_new_attempt_from_the_newest_checkpoint(
    home: Path, age: str, least: float
) -> None:
    """The time of the checkpoint is that of a shared disk, whose clock may be ahead."""
    aged = f"touch -d '{age}' checkpoints/step-00000002/manifest.json"
    first = f"{start(0)}; {progress(1)}; {progress(2)}; {checkpoint(2)}; {aged}; {progress(3)}"
    first += f"; {FAILS}"
    second = f"ls memory tmp >again; {start(2)}; {progress(3)}; {progress(4)}"
    run = Run(home, by_attempt(f"echo 1 >work/made; {first}", second), retries=3)
    result = run.result()
    assert (result["state"], result["culprit"], "cause" in result) == ("succeeded", None, False)
    (attempt,) = result["attempts"]
    assert (attempt["kind"], attempt["step"], attempt["from_step"]) == ("retry", 3, 2)
    assert attempt["cause"] == {
        "class": "host", "evidence": "killed by signal 9", "host": "b", "rank": 1
    }  # fmt: skip
    assert least <= attempt["lost"] < least + 120 and run.read("state.json")["attempts"] == [
        attempt
    ]
    summary = "railhead: host: killed by signal 9 (rank 1 on b): started again from step 2"
    assert summary in run.log("rank-0").splitlines()
    metrics = run.folder / "results/metrics.jsonl"
    steps = [record.step for record in records(metrics) if record.kind == "progress"]
    assert steps == [1, 2, 3, 4], "a repeated step counts once"
    assert len(metrics.read_text().splitlines()) == 7, "nothing was removed"
    assert [path for path, _ in run.read("results/outputs.json")["files"]] == ["made"]


AT_ONCE = {
    "retries are off": (FAILS, {"retries": 0}, None),
    "a script has no checkpoint": (FAILS, {"retries": 3, "program": PROGRAM}, "no checkpoint"),
    "a script with a bug has none": (
        raises("KeyError: 7"),
        {"retries": 3, "program": PROGRAM},
        None,
    ),
    "an import fails": (raises("ImportError: no"), {}, "the same error"),
    "an error before the first step": (raises("TypeError: no"), {}, "the same error"),
    "the loss is not a number": (
        f"{progress(1)}; {raises('the loss of step 2 is not a number on rank 1')}",
        {},
        "the same error",
    ),
    "a wrong argument": ("exit 1", {}, "the same error"),
    "its time is over": (
        f"{checkpoint(1)}; {progress(1)}; {FAILS}",
        {
            "max_hours": 0.05,
            "program": {"kind": "training", "settings": {"checkpoint_minutes": 9.0}},
        },
        "are left",
    ),
}


@pytest.mark.parametrize("script, changes, why", AT_ONCE.values(), ids=AT_ONCE)
def test_it_does_not_start_again_where(
    home: Path, script: str, changes: dict[str, Any], why: str | None
) -> None:
    defaults = {"retries": 3, "retries_from_start": "program" not in changes}
    run = Run(home, f"{script}", **{**defaults, **changes})
    result = run.result()
    assert (result["state"], "attempts" in result) == ("failed", False)
    assert (why is None) == ("no_restart" not in result)
    assert why is None or why in result["no_restart"]


def test_a_checkpoint_of_the_run_that_it_resumes_is_no_measure_of_the_interval(home: Path) -> None:
    """Its files keep their time, here of the day before; the time left is an hour."""
    before, after = checkpoint(1), f"{checkpoint(2)}; {progress(2)}; {FAILS}"
    age = "touch -d '20 hours ago' checkpoints/step-00000001/manifest.json"
    run = Run(home, by_attempt(f"{before}; {age}; {after}", "true"), retries=1, max_hours=1.0)
    assert run.result()["state"] == "succeeded"
    assert (points.checkpoints(str(run.folder)).interval(0.0) or 0) > 19 * 3600


def test_a_bug_is_tried_twice_and_other_failures_as_often_as_allowed(home: Path) -> None:
    bug = f"{checkpoint(4)}; {progress(5)}; {raises('KeyError: 17 of 0x7f')}"
    same = f"{progress(5)}; {raises('KeyError: 18 of 0x8f')}"
    result = Run(home, by_attempt(bug, same), retries=3).result()
    assert (result["state"], result["cause"]["class"]) == ("failed", "program")
    assert len(result["attempts"]) == 1 and "came twice" in result["no_restart"]

    further = f"{checkpoint(8)}; {same}"
    result = Run(home, by_attempt(bug, further, "true"), "r2", retries=3).result()
    assert (result["state"], len(result["attempts"])) == ("succeeded", 2)

    run = Run(home, by_attempt(FAILS, FAILS, FAILS), "r3", retries=2, retries_from_start=True)
    result = run.result()
    assert (result["state"], len(result["attempts"])) == ("failed", 2)
    assert "started again 2 times" in result["no_restart"]


def test_a_bug_is_tried_twice_also_where_a_script_logs_beside_its_checkpoint(home: Path) -> None:
    """The log is newer in each attempt, the checkpoint is the same."""
    log = "for n in 1 2 3 4 5 6 7 8; do echo $n >>checkpoints/log.csv; sleep 0.6; done"
    bug = f"{progress(5)}; {log}; {raises('KeyError: 17')}"
    first = f"mkdir -p checkpoints; echo 4 >checkpoints/state; {bug}"
    result = Run(home, by_attempt(first, bug, bug), retries=3, program=PROGRAM).result()
    assert "twice after the same checkpoint" in result["no_restart"]
    assert len(result["attempts"]) == 1


def test_a_kill_for_memory_in_an_earlier_attempt_is_not_the_cause_of_a_later_one(
    home: Path,
) -> None:
    """The kernel still has its record, which is 2.5 s older than the second attempt."""
    record = '{printf "[%s0] Out of memory: Killed process 7 (python)\\n", $1}'
    out_of_memory = f"sleep 2; awk '{record}' /proc/uptime >{home}/log; sleep 2.5"
    killed = f"{KILLED} ; exit 137".replace("rank 1", "rank 0").replace("on node b", "on node a")
    run = Run(home, by_attempt(f"{checkpoint(1)}; {out_of_memory}; {killed}", killed), retries=1)
    (home / "bin/dmesg").write_text(f"#!/bin/sh\ncat {home}/log\n")
    (home / "bin/dmesg").chmod(0o755)
    result = run.result()
    (attempt,) = result["attempts"]
    assert (attempt["cause"]["class"], result["cause"]["class"]) == ("memory", "host")


def test_the_metrics_of_a_script_are_counted_on_and_its_files_stay(home: Path) -> None:
    """What the first attempt printed after its checkpoint comes again."""
    values = [says(0, f"loss: {n}") for n in range(5)]
    save = "sleep 0.1; mkdir -p checkpoints; echo 1 >checkpoints/w.h5; sleep 0.1"
    first = f"{values[0]}; {values[1]}; {recorded(2)}; {save}; {values[2]}; {recorded(3)}; {FAILS}"
    second = f"cat checkpoints/w.h5 >found; {values[3]}; {values[4]}"
    metrics = [{"name": "loss", "pattern": r"loss: (\d+)"}]
    run = Run(home, by_attempt(first, second), retries=1, program=PROGRAM, metrics=metrics)
    assert run.result()["state"] == "succeeded" and (run.folder / "found").exists()
    kept = [r for r in records(run.folder / "results/metrics.jsonl") if r.kind == "metric"]
    assert [(r.number, r.figure("value")) for r in kept] == [(1, 0), (2, 1), (3, 3), (4, 4)]


def test_values_that_come_again_are_numbered_from_those_before_the_checkpoint(
    tmp_path: Path,
) -> None:
    values = [("loss", 1.0), ("mae", 1.5), ("loss", 2.0), ("mae", 2.5), ("loss", 3.0)]
    numbers = {"loss": 0, "mae": 0}
    (tmp_path / "results").mkdir()
    with (tmp_path / "results/metrics.jsonl").open("w") as lines:
        for name, time in values:
            numbers[name] += 1
            record = {"kind": "metric", "name": name, "number": numbers[name], "time": time}
            lines.write(f"{json.dumps(record)}\n")
    assert metric_numbers(str(tmp_path), since=2.0) == {"loss": 2, "mae": 1}


def test_what_is_printed_while_a_checkpoint_is_written_counts_once(home: Path) -> None:
    """As with an asynchronous save: it has the state of step 1, and is complete after step 3."""
    values = [says(0, f"loss: {n}") for n in range(5)]
    begins = "mkdir -p checkpoints; sleep 0.2; exec 3>checkpoints/.part; echo 1 >&3; sleep 0.2"
    complete = (
        "sleep 0.2; exec 3>&-; touch checkpoints/.part; mv checkpoints/.part checkpoints/w.h5"
    )
    first = f"{values[0]}; {values[1]}; {recorded(2)}; {begins}; {values[2]}; {values[3]}"
    first += f"; {recorded(4)}; {complete}; {FAILS}"
    second = f"{values[2]}; {values[3]}; {values[4]}"
    metrics = [{"name": "loss", "pattern": r"loss: (\d+)"}]
    run = Run(home, by_attempt(first, second), retries=1, program=PROGRAM, metrics=metrics)
    assert run.result()["state"] == "succeeded"
    kept = [r for r in records(run.folder / "results/metrics.jsonl") if r.kind == "metric"]
    assert [(r.number, r.figure("value")) for r in kept] == [(n + 1, n) for n in range(5)]


def test_secrets_reach_every_attempt_and_no_file(home: Path) -> None:
    use = "cat memory/secrets-0.json >>seen.json; rm memory/secrets-0.json"
    hosts = [{"name": "a", "slots": 2}]
    run = Run(home, "", secrets=["TOKEN"], hosts=hosts, retries=1, retries_from_start=True)
    make_temporary(MakeTemporary(str(run.folder)))
    for name in ("secrets.json", "secrets-0.json", "secrets-1.json"):
        run.write(f"memory/{name}", {"TOKEN": "hunter2"})
    script = by_attempt(f"{use}; {FAILS}", f"{use}; {says(0, 'it is hunter2')}")
    run.mpirun(script)
    assert run.result()["state"] == "succeeded"
    assert (run.folder / "seen.json").read_text() == '{"TOKEN": "hunter2"}' * 2
    assert run.log("rank-0").splitlines()[-1] == "it is [secret]"
    assert not [*run.folder.glob("memory/*")]


def test_a_later_attempt_can_be_cancelled(home: Path) -> None:
    again = "echo $$ >pid; exec sleep 600"
    run = Run(home, by_attempt(FAILS, again), retries=3, retries_from_start=True)
    process = run.start()
    wait_until((run.folder / "pid").exists)
    assert len(run.read("state.json")["attempts"]) == 1
    process.terminate()
    process.wait(60)
    result = run.read("results/result.json")
    assert (result["state"], len(result["attempts"])) == ("cancelled", 1)
    assert not is_alive(int((run.folder / "pid").read_text()))


def test_a_cancel_ends_the_copy_of_checkpoints_to_a_host(home: Path) -> None:
    """It may take hours. The hosts have got the secrets of the next attempt before."""
    first = f"mkdir -p checkpoints; echo 1 >checkpoints/w.h5; {FAILS}"
    run = Run(home, "", secrets=["TOKEN"], retries=1, program=PROGRAM)
    make_temporary(MakeTemporary(str(run.folder)))
    run.write("memory/secrets.json", {"TOKEN": "hunter2"})
    run.mpirun(by_attempt(first))
    ssh, copies = home / "bin/ssh", run.folder / "copies"
    slow = f'case "$*" in *"tar -C"*) ls memory/ >{copies}; sleep 600;; esac'
    ssh.write_text(f"#!/bin/sh\n{slow}\n{ssh.read_text()[10:]}")
    process = run.start()
    wait_until(lambda: copies.exists() and "secrets.json" in copies.read_text())
    process.terminate()
    process.wait(60)
    result = run.read("results/result.json")
    assert (result["state"], "attempts" in result) == ("cancelled", False)
    assert not [*run.folder.glob("memory/*")]


def test_a_host_that_does_not_answer_is_waited_for(home: Path) -> None:
    """The second look finds it; a host that refuses its preparation ends the run."""
    run = Run(home, by_attempt(FAILS, "true"), retries=1, retries_from_start=True)
    ssh = home / "bin/ssh"
    answer = ssh.read_text()
    lost = '#!/bin/sh\ncase "$*" in *attempts.prepare*) [ -e ../../../back ] || '
    ssh.write_text(f"{lost}{{ touch ../../../back; exit 255; }};; esac\n{answer[10:]}")
    assert run.result()["state"] == "succeeded"

    run = Run(home, by_attempt(FAILS, "true"), "r2", retries=1, retries_from_start=True)
    ssh.write_text('#!/bin/sh\necho "no space" >&2; exit 1\n')
    result = run.result()
    assert (result["state"], result["no_restart"]) == ("failed", "b: no space")


def test_a_host_that_was_created_again_is_used_at_its_new_address(home: Path) -> None:
    """Its document comes between two looks, from `fab up --replace`."""
    run = Run(home, by_attempt(FAILS, "true"), retries=1, retries_from_start=True)
    renewed = run.read("run.json")
    renewed["hosts"][1]["peer_address"] = "10.9.9.9"
    run.write("renewed.json", renewed)
    ssh = home / "bin/ssh"
    answer = ssh.read_text()
    renew = f"cd {run.folder}; mv renewed.json whole.json && exit 255"
    lost = (
        f'case "$*" in *attempts.prepare*) [ ! -e {run.folder}/renewed.json ] || {{ {renew}; }};;'
    )
    ssh.write_text(f"#!/bin/sh\n{lost} esac\n{answer[10:]}")
    assert run.result()["state"] == "succeeded"
    assert run.read("run.json")["hosts"][1]["peer_address"] == "10.9.9.9"


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize("address", ["10.0.0.3", "10.9.9.9"])
def test_an_absent_host_keeps_its_place_and_the_address_that_it_gets_meanwhile(
    home: Path, address: str
) -> None:
    """`fab up --replace` writes it while the other host is prepared for the second time."""
    hosts = (*HOSTS, RunHost("c", "10.0.0.3", None, 1))
    document = run_document(hosts=hosts, size=3, elastic=1)
    run = Run(home, "", **{name: encode(document)[name] for name in ("hosts", "size", "elastic")})
    renewed = encode(replace(document, hosts=(*HOSTS, RunHost("c", "10.9.9.9", None, 1))))
    if address == "10.9.9.9":
        run.write("renewed.json", renewed)
    looks = f"echo x >>{home}/looks; [ $(wc -l <{home}/looks) != 2 ]"
    comes = f"{looks} || mv renewed.json whole.json 2>&-; :"
    (home / "bin/ssh").write_text(
        f'#!/bin/sh\ncase "$*" in *railhead-3*) exit 255;; esac\ncd {run.folder}; {comes}\n'
    )
    again, why = restarts._hosts_ready(ended_with(run, document))
    assert (why, [host.slots for host in again.hosts]) == ("", [1, 1, 0])
    host = run.read("whole.json")["hosts"][2]
    assert (host["peer_address"], host["slots"]) == (address, 1)


@pytest.mark.usefixtures("in_run")
def test_a_host_that_is_back_after_the_copy_to_the_others_gets_one_too(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FRESH", 0.0)
    hosts = (*HOSTS, RunHost("c", "10.0.0.3", None, 1))
    document = run_document(hosts=hosts, size=3, elastic=1, program=decode(Script, PROGRAM))
    run = Run(home, "")
    run.write("run.json", encode(document))
    copy = f'*"tar -C"*) echo $5 >>{home}/copies;;'
    lost = f"*railhead-3*) [ -e {home}/copies ] || exit 255;;"
    (home / "bin/ssh").write_text(f'#!/bin/sh\ncase "$*" in {copy} {lost} esac\n')
    again, why = restarts._hosts_with_checkpoints(ended_with(run, document), Point(None, 1.0, 1))
    assert (why, [host.slots for host in again.hosts]) == ("", [1, 1, 1])
    assert (home / "copies").read_text().split() == ["railhead-2", "railhead-3"]


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize("fresh", [0.0, restarts.FRESH])
def test_hosts_are_prepared_again_after_a_copy_that_took_long(
    home: Path, monkeypatch: pytest.MonkeyPatch, fresh: float
) -> None:
    """An agent that starts meanwhile removes the temporary folders of a run that has no process:
    the copy has no marks."""
    monkeypatch.setattr(restarts, "FRESH", fresh)
    program = decode(Script, PROGRAM)
    document = run_document(hosts=HOSTS, retries=1, program=program, secrets=("TOKEN",))
    run = Run(home, "")
    run.write("run.json", encode(document))
    agent = " ".join(programs.command(run.folder, "agent.agent"))
    removes = f"touch -h -d @0 memory tmp; env -u RAILHEAD_RUN {agent} </dev/null"
    calls = f'*attempts.prepare*) echo prepare >>{home}/calls;; *"tar -C"*) {removes};;'
    (home / "bin/ssh").write_text(f'#!/bin/sh\ncase "$*" in {calls} esac\n')
    ended = ended_with(run, document, secrets={"TOKEN": "hunter2"})
    assert restarts._hosts_with_checkpoints(ended, Point(None, 1.0, 1))[1] == ""
    times = 1 if fresh else 2
    assert (home / "calls").read_text().split() == ["prepare"] * times
    assert (run.folder / "memory/secrets-0.json").exists() == (times == 2)
    drop_temporary(str(run.folder))


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize(("least", "slots"), [(1, [1, 0, 1]), (3, None)])
def test_an_elastic_run_continues_without_a_host_that_gets_no_copy(
    home: Path, least: int, slots: list[int] | None
) -> None:
    hosts = (*HOSTS, RunHost("c", "10.0.0.3", None, 1))
    program = decode(Script, PROGRAM)
    document = run_document(hosts=hosts, size=3, elastic=least, program=program)
    run = Run(home, "")
    run.write("run.json", encode(document))
    full = '*railhead-2*"tar -C"*) exit 1;;'
    ends = f"*railhead-?*run.end_processes*) echo $3 >>{home}/ends;;"
    (home / "bin/ssh").write_text(f'#!/bin/sh\ncase "$*" in {full} {ends} esac\n')
    again, why = restarts._hosts_with_checkpoints(ended_with(run, document), Point(None, 1.0, 1))
    if slots:
        assert (why, [host.slots for host in again.hosts]) == ("", slots)
        assert (home / "ends").read_text().split() == ["railhead-2"], "it has secrets again"
    else:
        assert why == "b: the checkpoints did not arrive"


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize(("least", "slots"), [(1, [1, 0, 0]), (2, None)])
def test_hosts_that_are_lost_one_after_another_are_missing_together(
    home: Path, monkeypatch: pytest.MonkeyPatch, least: int, slots: list[int] | None
) -> None:
    """c answers at first, and no longer when it is prepared again without b."""
    monkeypatch.setattr(restarts, "AGAIN", 0.0)
    hosts = (*HOSTS, RunHost("c", "10.0.0.3", None, 1))
    document = run_document(hosts=hosts, size=3, elastic=least)
    run = Run(home, "", **{name: encode(document)[name] for name in ("hosts", "size", "elastic")})
    looks = home / "looks"
    once = f"*railhead-3*) echo x >>{looks}; [ $(wc -l <{looks}) = 1 ] || exit 255;;"
    (home / "bin/ssh").write_text(f'#!/bin/sh\ncase "$*" in *railhead-2*) exit 255;; {once} esac\n')
    ended = ended_with(run, document, cancelled=lambda: len(looks.read_text().split()) > 2)
    again, why = restarts._hosts_ready(ended)
    assert bool(why) is not bool(slots)
    assert not slots or [host.slots for host in again.hosts] == slots


def ended_with(run: Run, document: RunDocument, **changes: Any) -> Ended:
    """A failed attempt of this run."""
    fields: dict[str, Any] = {
        "run": document,
        "folder": str(run.folder),
        "result": Result(state="failed"),
        "retry": retry.ALWAYS,
        "times": Times(1.0, 1.0, None),
        "stepped": False,
        "step": None,
        "outputs": Outputs(()),
        "secrets": {},
        "tick": lambda: None,
        "cancelled": lambda: False,
    }
    return Ended(**{**fields, **changes})


def test_retries_count_since_the_last_new_checkpoint(home: Path) -> None:
    """As the preemptions of a week: each attempt but the last two gets further."""
    further = [f"{checkpoint(n)}; {progress(n)}; {FAILS}" for n in range(1, 5)]
    run = Run(home, by_attempt(*further, FAILS, FAILS), retries=2, retries_from_start=True)
    result = run.result()
    assert (result["state"], len(result["attempts"])) == ("failed", 5)
    assert "2 times" in result["no_restart"]


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize(("on_stall", "again"), [("restart", True), ("stop", False)])
def test_a_run_that_stalls_starts_again_unless_the_option_forbids_it(
    home: Path, on_stall: str, again: bool
) -> None:
    run = Run(home, "", retries=1, retries_from_start=True, on_stall=on_stall)
    culprit = Culprit(1, "b", (), stall=Stall("rank 1 on b is stopped", 62.0, (1,)))
    failure = diagnosed(Failure(culprit))
    result = Result(state="failed", culprit=culprit, cause=failure.cause)
    document = decode(RunDocument, run.read("run.json"))
    decision = Restarts().decide(ended_with(run, document, result=result, retry=failure.retry))
    assert (decision.attempt is not None, "--on-stall restart" in decision.why) == (
        again,
        not again,
    )


@pytest.mark.usefixtures("in_run")
def test_an_attempt_that_ended_to_take_a_host_back_is_no_failure(home: Path) -> None:
    """It uses up no retry, and needs none."""
    run = Run(home, "", retries=1, retries_from_start=True)
    result = Result(state="failed", culprit=Culprit(1, "b", (), signal=15))
    document, decisions = decode(RunDocument, run.read("run.json")), Restarts()
    kinds = []
    for grows in (True, False, True, False):
        ended = ended_with(run, document, result=result, grows=grows)
        attempt = decisions.decide(ended).attempt
        kinds.append(attempt.kind if attempt else "none")
    assert kinds == ["elastic", "retry", "elastic", "none"]


@pytest.mark.usefixtures("in_run")
def test_an_attempt_without_a_checkpoint_has_lost_its_own_time(home: Path) -> None:
    """Not that of the earlier attempts of the run."""
    run = Run(home, "", retries=1, retries_from_start=True)
    result = Result(state="failed", culprit=Culprit(1, "b", (), signal=9))
    document, times = decode(RunDocument, run.read("run.json")), Times(60.0, 900.0, None)
    attempt = Restarts().decide(ended_with(run, document, result=result, times=times)).attempt
    assert attempt and attempt.lost == pytest.approx(60.0, abs=1.0)


@pytest.mark.usefixtures("in_run")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_host_is_waited_for_longer_while_it_is_created_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """A look takes longer than the time that a host has to come back here."""
    for name, seconds in (("BACK", 0.2), ("AGAIN", 0.0)):
        monkeypatch.setattr(restarts, name, seconds)
    run = Run(home, "", retries=1)
    (home / "bin/ssh").write_text(f"#!/bin/sh\necho x >>{home}/looks; sleep 0.5; exit 255\n")
    looks, agent = home / "looks", subprocess.Popen(["sh", "-c", "sleep 60; : 'agent'"])
    ended = ended_with(
        run,
        run_document(hosts=HOSTS, size=2),
        cancelled=lambda: looks.exists() and len(looks.read_text().split()) > 3,
    )
    if replaced:
        (run.folder / REPLACING).write_text(f"{agent.pid}\n")
    try:
        assert restarts._hosts_ready(ended)[1]
    finally:
        agent.kill()
        agent.wait()
    assert (len(looks.read_text().split()) > 1) == replaced


@pytest.mark.usefixtures("in_run")
def test_no_host_is_waited_for_where_another_one_cannot_be_prepared(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt cannot begin, whether the one that does not answer comes back or not."""
    monkeypatch.setattr(restarts, "AGAIN", 0.0)
    document = run_document(hosts=(*HOSTS, RunHost("c", "10.0.0.3", None, 1)), size=3)
    run, looks = Run(home, "", hosts=encode(document)["hosts"], size=3), home / "looks"
    away = f'case "$*" in *railhead-2*) echo x >>{looks}; exit 255;; esac'
    (home / "bin/ssh").write_text(f"#!/bin/sh\n{away}\necho damaged >&2; exit 1\n")
    ended = ended_with(
        run, document, cancelled=lambda: looks.exists() and len(looks.read_text().split()) > 1
    )
    assert "c: damaged" in restarts._hosts_ready(ended)[1]
    assert len(looks.read_text().split()) == 1


def test_the_timer_of_the_machine_is_a_limit_too(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho stops=1000 now=900 late=no timer=active\n")
    tool.chmod(0o755)
    run: RunDocument = run_document(max_hours=1.0)
    assert time_left.seconds_left(run, 100, str(tmp_path / "none")) == 3500
    stopped = tmp_path / "stopped"
    stopped.write_text(tool.read_text().replace("timer=active", "timer=inactive"))
    stopped.chmod(0o755)
    assert time_left.seconds_left(run, 100, str(stopped)) == 3500
    assert time_left.seconds_left(run, 100, str(tool)) == 100
    assert time_left.seconds_left(run_document(), 100, str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("remaining", "start", "interval", "late"),
    [(None, 60, 600, False), (660, 60, 600, False), (659, 60, 600, True), (-5, 0, 0, True)],
)
def test_an_attempt_needs_time_for_a_start_and_a_checkpoint(
    remaining: float | None, start: float, interval: float, late: bool
) -> None:
    assert bool(time_left.too_late(remaining, start, interval)) == late
