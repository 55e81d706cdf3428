"""A run in which one rank hangs: real ranks, real signals, and the real supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from standins.runs.supervised_run import Run, needs_mpirun, with_script
from standins.runs.supervisor_here import SupervisorHere
from standins.waiting import wait_until

from bootstrap.host.output.rank_output import Secrets
from bootstrap.host.stall.collect import Sample
from bootstrap.host.stall.diagnosis import Diagnosis
from bootstrap.host.stall.watch import ask_host
from railhead.documents.codec import decode, encode
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.stall import Place, Stall

# The others wait in a library with the name of Horovod, which reads from a pipe.
LIBRARY = """
import os
def allreduce(path):
    return os.read(os.open(path, os.O_RDONLY), 1)
"""
SCRIPT = """
import os, sys, time
rank, pipes = int(os.environ["RAILHEAD_RANK"]), os.environ["PIPES"]
sys.path.insert(0, pipes)
import horovod
for step in range(20):
    print("step", step, "loss: 0.5", flush=True)
    time.sleep(0.05)
if rank == 1:
    open(f"{pipes}/behind").read(1)
horovod.allreduce(f"{pipes}/others")
print("all ranks continue: loss: 0.4", flush=True)
time.sleep(3)
"""


@needs_mpirun
def test_a_stall_is_shown_while_it_lasts_and_the_run_continues(tmp_path: Path, home: Path) -> None:
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod/__init__.py").write_text(LIBRARY)
    for name in ("behind", "others"):
        os.mkfifo(tmp_path / name)
    hosts = [{"name": "a", "slots": 3}]
    environment = {"PIPES": str(tmp_path)}
    run = Run(home, "", hosts=hosts, size=3, on_stall="wait", stall_after=2, env=environment)
    process = with_script(run, SCRIPT, ranks=3).start()
    run.running()
    wait_until(lambda: "stall" in run.read("state.json"), 60)
    stall = run.read("state.json")["stall"]
    (place,) = [candidate for candidate in stall["places"] if candidate["rank"] == 1]
    assert stall["behind"] == [1] and (place["file"], place["line"]) == ("train.py", 10)
    assert stall["text"].startswith('rank 1 on a has been in train.py:10 `open(f"{pipes}/behind")')
    assert stall["text"].endswith("; ranks 0, 2 wait for it in allreduce (train.py:11)")
    for name, readers in (("behind", 1), ("others", 3)):
        os.write(os.open(tmp_path / name, os.O_RDWR), b"x" * readers)  # open until the test ends
    wait_until(lambda: "stall" not in run.read("state.json"), 60)
    assert process.wait(60) == 0
    assert run.read("results/result.json")["state"] == "succeeded"
    assert "horovod/__init__.py" in run.log("stacks")
    assert (run.folder / "results/metrics.jsonl").read_text().count('"kind": "stall"') == 1


STALL = Stall("rank 1 on b is stopped", 62.0, (1,), (Place(1, "b", "stopped"),))


@pytest.mark.parametrize(("on_stall", "ends"), [("stop", True), ("restart", True), ("wait", False)])
def test_a_stall_ends_the_run_unless_it_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_stall: str, ends: bool
) -> None:
    run = SupervisorHere(tmp_path / "r1", monkeypatch, on_stall=on_stall)
    run.rank_prints(1, "the last line")
    run.supervisor.watch.stall, run.supervisor.watch.confirmed = STALL, True
    for second in range(1000):  # without progress
        run.supervisor.watch.look(float(second))
    assert (run.supervisor.watch.thread is None) is ends  # its ranks end now: nobody looks again
    assert run.supervisor.must_end() is ends
    if ends:
        result = run.result(-15)
        assert result.culprit and (result.state, result.culprit.stall) == ("failed", STALL)
        assert (result.culprit.rank, result.culprit.lines) == (1, ("the last line",))


def test_a_look_that_gets_no_thread_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SupervisorHere(tmp_path / "r1", monkeypatch, stall_after=10).supervisor.watch
    examined = threading.Event()
    monkeypatch.setattr(watch, "_examine", lambda *_: examined.set())
    usual = threading.stack_size(1 << 47)  # bytes: there are not so many addresses
    try:
        for second in range(200):  # without progress
            watch.look(float(second))
    finally:
        threading.stack_size(usual)
    assert not examined.is_set()
    for second in range(200, 400):
        watch.look(float(second))
    assert examined.wait(60)


def test_a_stall_is_shown_at_once_and_ends_the_run_if_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SupervisorHere(tmp_path / "r1", monkeypatch).supervisor.watch
    seen = []
    for seconds, factor in ((60, 1), (300, 15), (330, 1), (629, 1), (630, 1)):  # 15: it works
        watch.decide(Diagnosis(STALL, factor), (), float(seconds), 60.0)
        seen.append((watch.stall is not None, watch.ends_run))
    shown, over = (True, False), (True, True)
    assert seen == [shown, (False, False), shown, shown, over]


def test_no_secret_is_in_a_stall_and_in_its_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a program, the command of its child, and the stack."""
    run = SupervisorHere(tmp_path / "r1", monkeypatch)
    watch, run.output.secrets = run.supervisor.watch, Secrets(["hunter2"])
    place = Place(1, "b", "call", text="login('hunter2')", detail="its child: curl -u hunter2")
    stall = Stall("rank 1 is in login('hunter2')", 62.0, (1,), (place,))
    stacks = ("", "login('hunter2')")
    sample = Sample(1, 7, 1.0, "S", 0.0, 0.0, 0.0, 0, 0, stacks=stacks, child="curl -u hunter2")
    watch.decide(Diagnosis(stall, 1), [sample], 60.0, 60.0)
    assert "hunter2" not in str(watch.stall) and str(watch.stall).count("[secret]") == 3
    assert "hunter2" not in run.log("stacks") and run.log("stacks").count("[secret]") == 3
    assert b"hunter2" not in (run.folder / "results/metrics.jsonl").read_bytes()


def test_a_long_step_is_shown_once_until_there_is_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a stall yet: the rank that the others wait for computes."""
    run = SupervisorHere(tmp_path / "r1", monkeypatch, stall_after=10)
    watch = run.supervisor.watch
    computes = Stall("rank 1 on b has been in train.py:3 for 11 s", 11.0, (1,))
    for _ in range(2):
        for seconds in (11, 21, 31):
            watch.decide(Diagnosis(computes, 15), (), float(seconds), 10.0)
        watch.progress.step([1])
        watch.look(0.0)
    records = [json.loads(line) for line in (run.folder / "results/metrics.jsonl").open()]
    assert [(r["kind"], r["text"], r["seconds"]) for r in records] == [
        ("long_step", computes.text, 11.0)
    ] * 2
    assert watch.stall is None and not watch.ends_run


def test_a_run_that_ends_while_its_hosts_are_examined_gets_no_record_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest has the sha256 of metrics.jsonl: a later line would look like damage."""
    run = SupervisorHere(tmp_path / "r1", monkeypatch, stall_after=1)
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nuntil [ -e {tmp_path}/over ]; do :; done\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    watch = run.supervisor.watch
    for second in range(16):  # without progress
        watch.look(float(second))
    wait_until((tmp_path / "begun").exists, 60)
    with subprocess.Popen(["true"]) as mpirun:
        assert run.supervisor.wait(mpirun) == 0
    (tmp_path / "over").touch()
    assert watch.thread
    watch.thread.join(60)
    assert not watch.thread.is_alive()
    assert (run.folder / "results/metrics.jsonl").read_text() == ""


def test_the_values_of_secrets_are_in_no_line_of_a_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r1/memory").mkdir(parents=True)
    (tmp_path / "r1/memory/secrets.json").write_text('{"TOKEN": "hunter22"}')
    run = SupervisorHere(tmp_path / "r1", monkeypatch, secrets=["TOKEN"])
    place = Place(1, "b", "call", "train.py", 3, "wait('hunter22')")
    shown = run.supervisor.watch.redacted(Stall("in `wait('hunter22')`", 62.0, (1,), (place,)))
    assert "hunter22" not in str(shown) and "[secret]" in shown.text


SOURCES = {
    "a line of the program": ("train.py", 2, "b = 2"),
    "a line after its end": ("train.py", 9, ""),
    "a file that is not there": ("other.py", 1, ""),
    "a file outside the program": ("../run.json", 1, ""),
    "a pipe": ("pipe", 1, ""),
}


@pytest.mark.parametrize(("file", "line", "text"), SOURCES.values(), ids=SOURCES)
def test_the_text_of_a_line_comes_from_the_program_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, line: int, text: str
) -> None:
    run = SupervisorHere(tmp_path / "r1", monkeypatch)
    (run.folder / "work/train.py").write_text("a = 1\n  b = 2\n")
    os.mkfifo(run.folder / "work/pipe")
    assert run.supervisor.watch.source(file, line) == text


def test_a_host_answers_for_its_own_ranks_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two ranks; the first one is another host's."""
    run = Run(home, "")
    document = decode(RunDocument, run.read("run.json"))
    samples = [Sample(rank, 7, 1.0, "S", 0.0, 0.0, 0.0, 0, 0) for rank in range(document.size)]
    (home / "bin/ssh").write_text(f"#!/bin/sh\ncat <<E\n{json.dumps(encode(samples))}\nE\n")
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    answers = ask_host(document, str(run.folder), 1, 0.1)
    assert [sample.rank for sample in answers if not isinstance(sample, str)] == [1]
