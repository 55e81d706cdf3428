"""A run that continues with the hosts that are left, and takes a host back after a checkpoint."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document
from standins.runs.supervised_run import Run
from standins.waiting import wait_until

from bootstrap.host.attempts import elastic
from bootstrap.host.attempts.elastic import Returning
from railhead.documents.codec import Malformed, decode, encode
from railhead.documents.runs.run import Role, RunDocument, RunHost

HOSTS = tuple(RunHost(name, f"10.0.0.{n}", None, 2) for n, name in enumerate("abc", 1))
ADDRESSES = ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:3", "10.0.0.2:4", "10.0.0.3:5", "10.0.0.3:6")


def three_hosts(**changes: Any) -> RunDocument:
    """A run of six workers on three hosts."""
    return run_document(
        hosts=HOSTS,
        size=6,
        elastic=1,
        roles=tuple(Role("worker", index) for index in range(6)),
        tf_cluster={"worker": ADDRESSES},
        **changes,
    )


@pytest.mark.parametrize("absent", ["b", "c", "bc"])
def test_ranks_and_workers_are_numbered_again_without_a_host(absent: str) -> None:
    whole = three_hosts()
    run = elastic.without(whole, {*absent})
    kept = [n for n, host in enumerate(HOSTS) if host.name not in absent]
    assert run.size == 2 * len(kept) and elastic.absent_hosts(run) == (*absent,)
    assert [run.host_of(rank) for rank in range(run.size)] == [n for n in kept for _ in range(2)]
    assert run.roles == tuple(Role("worker", index) for index in range(run.size))
    workers = tuple(a for n in kept for a in ADDRESSES[2 * n : 2 * n + 2])
    assert run.tf_cluster == {"worker": workers}
    for number, host in enumerate(HOSTS):
        assert [*run.ranks_of(number)] == [r for r in range(run.size) if run.host_of(r) == number]
        assert bool(run.secret_files(number)) == (host.name not in absent or not number)
    assert elastic.without(whole, set()) == whole
    assert decode(RunDocument, json.loads(json.dumps(encode(run)))) == run


@pytest.mark.parametrize(("least", "slots"), [(0, (2, 0)), (1, (0, 2))])
def test_only_an_elastic_run_has_a_host_without_slots_and_never_its_chief(
    least: int, slots: tuple[int, int]
) -> None:
    hosts = [encode(replace(HOSTS[n], slots=count)) for n, count in enumerate(slots)]
    with pytest.raises(Malformed, match="slots"):
        decode(RunDocument, {**encode(run_document()), "elastic": least, "hosts": hosts})


KILLED = "echo 'Remote daemon: [[1,0],2] on node railhead-2 ' >&2; exit 1"
NOTE = "grep -o '\"size\": [0-9]*' run.json >>sizes; cat hostfile >>sizes; echo $0 $* >>argv"
STEP = "checkpoints/step-00000009"
SAVE = f"mkdir -p {STEP}; while sleep 1; do echo 1 >{STEP}/manifest.json; done"


def lost_host(home: Path, *, comes_back: bool, second: str = SAVE, **changes: Any) -> Run:
    """A run whose host b is lost in the first attempt; the second one trains on a. `ssh` reaches b
    again once that attempt has begun, if it comes back."""
    second = f"touch back; {second}" if comes_back else "true"
    script = f"{NOTE}; echo x >>n; case $(wc -l <n) in 1) {KILLED};; 2) {second};; esac"
    more = {"elastic": 1, "retries": 1, "retries_from_start": True, **changes}
    run = Run(home, "", **more)
    run.mpirun(script, "-np", "2")
    (run.folder / "hostfile").write_text("railhead-1 slots=1\nrailhead-2 slots=1\n")
    ssh = home / "bin/ssh"
    reply = ssh.read_text().splitlines()[-1]
    ssh.write_text(f"#!/bin/sh\n[ -e {run.folder}/back ] || exit 255\n{reply}\n")
    return run


def sizes(run: Run) -> list[str]:
    """Of each attempt the size in run.json, then the lines of the hostfile."""
    return (run.folder / "sizes").read_text().splitlines()


ALONE = ['"size": 1', "railhead-1 slots=1"]
BOTH = ['"size": 2', "railhead-1 slots=1", "railhead-2 slots=1"]


def test_it_continues_with_the_hosts_that_are_left(home: Path) -> None:
    run = lost_host(home, comes_back=False)
    result = run.result()
    assert (result["state"], result["size"], [*result["swept"]]) == ("succeeded", 1, ["a"])
    (attempt,) = result["attempts"]
    assert (attempt["kind"], attempt["hosts"]) == ("retry", ["a"])
    assert (attempt["cause"]["class"], attempt["culprit"]["host"]) == ("host", "b")
    assert sizes(run) == [*BOTH, *ALONE]
    assert (run.folder / "argv").read_text().splitlines() == ["-np 2", "-np 1"]


def test_a_host_that_answers_again_is_taken_back_after_a_checkpoint(home: Path) -> None:
    run = lost_host(home, comes_back=True)
    result = run.result()
    assert (result["state"], result["size"]) == ("succeeded", 2)
    first, second = result["attempts"]
    assert (first["hosts"], second["kind"], second["from_step"]) == (["a"], "elastic", 9)
    assert "hosts" not in second and "it answers again" in second["cause"]["evidence"]
    assert sizes(run) == [*BOTH, *ALONE, *BOTH]


def test_a_host_that_is_taken_back_costs_no_retry(home: Path) -> None:
    """A rank dies then, before another checkpoint: the one retry is still there."""
    dies = "echo 'mpirun noticed that process rank 1 with PID 9 on node b exited on signal 9' >&2"
    run = lost_host(home, comes_back=True, second=f"{SAVE};; 3) {dies}; exit 137")
    result = run.result()
    assert result["state"] == "succeeded"
    assert [attempt["kind"] for attempt in result["attempts"]] == ["retry", "elastic", "retry"]


def test_a_host_that_answers_and_cannot_be_prepared_ends_no_healthy_run(home: Path) -> None:
    run = lost_host(home, comes_back=True)
    ssh = home / "bin/ssh"
    first, lost, reply = ssh.read_text().splitlines()
    full = 'case "$*" in *attempts.prepare*) echo "no space" >&2; exit 1;; esac'
    ssh.write_text("\n".join([first, lost, full, reply, ""]))
    result = run.result()
    assert (result["state"], result["size"]) == ("succeeded", 1)
    assert [(attempt["kind"], attempt["hosts"]) for attempt in result["attempts"]] == [
        ("retry", ["a"]), ("elastic", ["a"])
    ]  # fmt: skip
    assert sizes(run) == [*BOTH, *ALONE, *ALONE]
    without_b = elastic.without(three_hosts(), ["b"])
    assert Returning(without_b, "", {"b"}).absent == () != Returning(without_b, "").absent


def test_no_host_is_taken_back_shortly_before_the_deadline(home: Path) -> None:
    """b answers, and checkpoints are written, two hours apart: the attempt without it continues."""
    later = "checkpoints/step-00000010"
    apart = f"mkdir -p {STEP} {later}; echo 1 >{STEP}/manifest.json"
    save = f"{apart}; echo 1 >{later}/manifest.json; touch -d '2 hours' {later}/manifest.json"
    run = lost_host(home, comes_back=True, second=f"{save}; sleep 14", max_hours=1.0)
    result = run.result()
    assert (result["state"], result["size"], len(result["attempts"])) == ("succeeded", 1, 1)
    assert sizes(run) == [*BOTH, *ALONE]


def test_it_waits_where_too_few_hosts_are_left(home: Path) -> None:
    run = lost_host(home, comes_back=False, elastic=2, max_hours=8 / 3600)
    result = run.result()
    assert result["state"] == "cancelled" and sizes(run) == BOTH


@pytest.mark.parametrize("late", [False, True])
def test_a_host_that_is_back_too_late_is_not_looked_for_again(tmp_path: Path, late: bool) -> None:
    (tmp_path / STEP).mkdir(parents=True)
    (tmp_path / STEP / "manifest.json").write_text("{}")
    returning = Returning(elastic.without(three_hosts(), ["b"]), str(tmp_path))
    returning.back = "b"
    assert returning.is_due(lambda listed: late and listed.newest.step == 9) != late
    assert (returning.absent == (), returning.back == "") == (late, late)


def test_an_absent_host_is_looked_for_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "LOOK", 0.0)
    whole = Returning(three_hosts(), str(tmp_path))
    whole.look()
    assert not whole.looks and not whole.is_due(lambda _: False)


def test_a_look_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without memory for a process: the other hosts train on."""
    monkeypatch.setattr(elastic, "LOOK", 0.0)
    monkeypatch.setenv("PATH", "/nonexistent")
    returning = Returning(elastic.without(three_hosts(), ["b"]), str(tmp_path))
    returning.look()
    (tmp_path / "ssh").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))

    def is_back() -> bool:
        returning.look()
        return returning.back == "b"

    wait_until(is_back)


def test_a_host_is_taken_back_only_after_a_new_checkpoint(tmp_path: Path) -> None:
    """Two checkpoints: one from before it answered, one after that."""
    returning = Returning(elastic.without(three_hosts(), ["b"]), str(tmp_path))
    returning.back, returning.since = "b", time.time() - 60
    for step, age, is_due in ((1, 90, False), (2, 30, True)):
        folder = tmp_path / f"checkpoints/step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        os.utime(folder / "manifest.json", (time.time() - age, time.time() - age))
        assert returning.is_due(lambda _: False) is is_due
