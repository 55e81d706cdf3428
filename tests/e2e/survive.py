"""Runs with random faults: the cases of `make campaign-survive` and `make campaign-survive-light`.

`make test` has one of them, in runs/test_survive.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import random
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e import faults
from e2e.local_hosts import (
    DIGITS,
    Done,
    Operator,
    Training,
    changed_cluster,
    homes_of_hosts,
    json_lines,
    marked,
    run_id,
    wait_until,
    with_rights,
    with_settings,
)
from e2e.small_disks import SIZES, full, in_next_run, small_disk
from standins.stores import object_stores
from standins.stores.object_stores import S3

from bootstrap.host.rank.rank_link import LIMIT
from bootstrap.untrusted.records import records

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED", "0"))
CASES = 5
SETTINGS = (*DIGITS, "epochs=12")
STEPS = 40
# Each step waits for the other rank, as in an allreduce, and is saved as soon as it is printed. Its
# argument: `logs` beside the checkpoint, or a `thread` that saves it while steps go on.
SCRIPT = f"""
import contextlib, json, os, pathlib, socket, sys, threading, time
folder = pathlib.Path(os.environ["RAILHEAD_CHECKPOINT_DIR"])
file, rank, kind = folder / "step", int(os.environ["RAILHEAD_RANK"]), sys.argv[1]
host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0].split(":")
saving = threading.Thread()
def connected():
    if rank == 0:
        return socket.create_server(("", int(port))).accept()[0]
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            time.sleep(0.05)
def save(step, seconds):
    with contextlib.suppress(OSError):  # a full disk costs a checkpoint
        with open(folder / ".step", "w") as new:
            time.sleep(seconds)
            new.write(str(step))
        (folder / ".step").replace(file)
def log(step):
    for name in "log.csv", "events.out.tfevents.1.h1":
        with contextlib.suppress(OSError), open(folder / name, "a") as lines:
            lines.write(f"{{step}}\\n")
other = connected()
begin = int(file.read_text()) if file.exists() else 0
for step in range(begin + 1, {STEPS} + 1):
    try:
        other.sendall(b"x")
        if not other.recv(1):
            raise ConnectionResetError("it has ended")
    except OSError as error:
        sys.exit(f"ConnectionResetError: the other rank: {{error}}")
    if rank == 0:
        print("loss", 1 / step, flush=True)
        if kind == "logs":
            log(step)
        if kind != "thread":
            save(step, 0)
        elif not saving.is_alive():
            saving = threading.Thread(target=save, args=(step, 0.4))
            saving.start()
        time.sleep(0.25)
"""
COUNTS = (
    *("train", "--script", "steps.py", "--launcher", "tensorflow", "--independent"),
    *(*faults.METRIC, "--args"),
)
PROGRAMS = ("plain", "logs", "thread")
# Where a run writes on its chief, below the home of the host.
RUNS = ".railhead/runs"
FOLDERS = (RUNS, "results", "logs", "checkpoints", "../tmp", "/dev/shm")
DISKS = [(folder, by) for folder in FOLDERS for by in SIZES]
Fault = tuple[str, float]  # its kind, and when it happened


@pytest.fixture(scope="session")
def unbroken(trained: Training, ready: Path, shared_caches: Path, tmp_path_factory: Any) -> Path:
    """The results of the same training without faults."""
    operator = Operator(ready, tmp_path_factory.mktemp("unbroken"), shared_caches)
    operator.fab(*with_settings(SETTINGS), seconds=600).ended(0)
    return operator.last


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(CASES))
def test_a_training_survives_random_faults(operator: Operator, unbroken: Path, number: int) -> None:
    chosen = random.Random(f"{SEED}-{number}")
    kinds = drawn(chosen, faults.CONTINUES, faults.ENDS)
    print_figures(survive(operator, with_settings(SETTINGS), chosen, kinds))
    check_curve(operator.last, unbroken)


@pytest.fixture(scope="session")
def kernel_log(ready: Path) -> Iterator[None]:
    """Programs on the hosts read a log of a kernel that is only theirs."""
    if Path("/proc/self/ns/mnt").readlink() == Path(f"/proc/{os.getppid()}/ns/mnt").readlink():
        pytest.skip("another kernel log is a mount that others would see: use campaigns.survive")
    with faults.own_kernel_log(ready):
        yield


@pytest.mark.parametrize("number", range(2 * CASES))
def test_a_program_that_counts_survives_random_faults(
    operator: Operator, kernel_log: None, number: int
) -> None:
    chosen = random.Random(f"{SEED}-{number}")
    kinds = drawn(chosen, (*faults.CONTINUES, *faults.ISOLATED), faults.ENDS)
    print_figures(count(operator, kinds, chosen, PROGRAMS[number % 3]))


@pytest.mark.parametrize("number", range(CASES))
def test_a_program_that_counts_survives_a_full_disk(
    operator: Operator, kernel_log: None, number: int
) -> None:
    """All places in turn: 12 in three seeds."""
    chosen = random.Random(f"{SEED}-{number}")
    kinds = drawn(chosen, faults.CONTINUES)
    folder, by = DISKS[(SEED * CASES + number) % len(DISKS)]
    with disk_of(operator, folder, by) as places:

        def fill() -> None:
            print(f"\nseed {SEED}: full {folder} by {by}", flush=True)
            with full(places[0], by):
                time.sleep(chosen.uniform(2, 8))

        print_figures(count(operator, kinds, chosen, PROGRAMS[number % 3], during=fill))


@pytest.mark.parametrize("number", range(CASES))
def test_a_program_that_counts_survives_without_its_bucket(
    operator: Operator, s3_store: S3, number: int
) -> None:
    """The bucket is away for 10 to 120 s, also beyond the end of the run; then it has all of it.
    With a standby it is away for less than the lease holds: the chief keeps the run."""
    chosen = random.Random(f"{SEED}-{number}")
    kinds = drawn(chosen, faults.CONTINUES)
    timers: list[threading.Timer] = []

    options = ("--takeover",) if number % 2 else ()

    def away() -> None:
        seconds = chosen.uniform(10, 60 if options else 120)
        print(f"\nseed {SEED}: bucket away for {seconds:.0f} s", flush=True)
        timers.append(faults.stopped_for(str(s3_store.folder), seconds))

    bucket = f"surviving-{number}"
    with bucket_of(operator, s3_store, bucket):
        program, env = PROGRAMS[number % 3], s3_store.environ
        print_figures(count(operator, kinds, chosen, program, away, env, options))
        timers[0].join()
        run = operator.last.name
        name = f"runs/{run}/manifest.json"
        wait_until(lambda: name in s3_store.names(bucket), 200, "the bucket has the results")
        files = json.loads(s3_store.get(bucket, name))["files"]
        sums = {one["path"]: one["sha256"] for one in files}
        records = (operator.last / "metrics.jsonl").read_bytes()
        assert sums["results/metrics.jsonl"] == hashlib.sha256(records).hexdigest()


def drawn(chosen: random.Random, continues: Sequence[str], ends: Sequence[str] = ()) -> list[str]:
    """One to three faults; only the last one may end the run."""
    kinds = [chosen.choice(continues) for _ in range(chosen.randint(1, 3))]
    if ends and chosen.random() < 0.3:
        kinds[-1] = chosen.choice(ends)
    return kinds


@dataclass(frozen=True)
class Survived:
    """A run that was correct. `folder`: its results; `earlier`: the records before a resume."""

    folder: Path
    happened: Sequence[Fault]
    earlier: Path | None = None


def count(
    operator: Operator,
    kinds: Sequence[str],
    chosen: random.Random,
    program: str,
    during: Callable[[], None] = lambda: None,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Survived:
    """A run of the program that counts: as without faults, each step is in its records once.
    `during`: happens before the faults."""
    operator.write("steps.py", SCRIPT)
    words = (COUNTS[0], *options, *COUNTS[1:], program)
    survived = survive(operator, words, chosen, kinds, during, env)
    steps = faults.steps_of(survived.folder / "metrics.jsonl")
    before = faults.steps_of(survived.earlier) if survived.earlier else []
    twice = len(steps) + len(before) - len({*steps}) - len({*before})
    missing = {*range(1, STEPS + 1)}.difference(steps, before)
    names = ", ".join(kind for kind, _ in survived.happened)
    print(f"\nCOUNT {program}, {names}: missing {sorted(missing)}, twice {twice}", flush=True)
    assert twice == 0 and steps == sorted(steps) and max([*before, *steps]) == STEPS
    # The processes of a host end one after the other: the last one may print what none keeps.
    kinds_of_end = [kind for kind, _ in survived.happened[-1:]] if survived.earlier else []
    assert len(missing) <= kinds_of_end.count("chief")
    return survived


def survive(
    operator: Operator,
    words: Sequence[str],
    chosen: random.Random,
    kinds: Sequence[str],
    during: Callable[[], None] = lambda: None,
    env: Mapping[str, str] | None = None,
) -> Survived:
    """A run with faults, which succeeds and leaves nothing on the hosts."""
    run = run_id(operator.fab(*words, "--detach", env=env, seconds=600).ended(0).out)
    metrics = operator.run_folder(run) / "results/metrics.jsonl"
    faults.wait_for_steps(metrics, 2)
    during()
    happened: list[Fault] = []
    for kind in kinds:
        faults.wait_for_steps(metrics, 2)
        time.sleep(chosen.uniform(0, 2))
        at = time.time()
        if not faults.happen(operator, kind):  # it has ended meanwhile
            break
        print(f"\nseed {SEED}: {kind}", flush=True)
        happened.append((kind, at))
    is_resumed = (
        bool(happened) and happened[-1][0] in faults.ENDS and resume(operator, run, happened)
    )
    if not is_resumed:
        attach = ("attach", "--run", run)
        out = operator.fab(*attach, env=env, seconds=600).ended(0, "succeeded").out
        attempts = operator.result().get("attempts", [])
        assert {a["cause"]["class"] for a in attempts} <= {"host", "network"}, attempts
        assert {a["kind"] for a in attempts} <= {"retry"} and len(attempts) <= len(happened), out
    # A standby looks for the end of the run in the bucket.
    seconds = 180 if "--takeover" in words else 20
    wait_until(lambda: not marked(operator.home), seconds, "the supervisor has ended")
    return Survived(operator.last, happened, metrics if is_resumed else None)


def resume(operator: Operator, run: str, happened: Sequence[Fault]) -> bool:
    """The run has ended, or ends within the limit, on all hosts; what is printed continues it.
    False if it had succeeded a moment before."""
    kind, at = happened[-1]
    wait_until(lambda: not marked(operator.home), LIMIT + 60, "it ends on all hosts")
    print(f"\nFIGURE {kind}: all ranks ended after {time.time() - at:.1f} s")
    if kind == "chief":
        type_printed(operator, operator.fab("attach", "--run", run, seconds=600).ended(2))
    done = operator.fab("attach", "--run", run, seconds=600)
    if done.code == 0:
        return False
    type_printed(operator, done.ended(1, f"next: fab train --resume {run}"))
    assert json.loads((operator.last / "run.json").read_text())["resumes"] == run
    return True


def type_printed(operator: Operator, done: Done) -> None:
    """Type each command that another one has printed as the next one; all succeed."""
    for command in re.findall(r"next: fab (.+)", done.out):
        print(f"\nTYPED fab {command}", flush=True)
        operator.fab(*shlex.split(command, comments=True), seconds=900).ended(0)


@contextlib.contextmanager
def disk_of(operator: Operator, folder: str, by: str) -> Iterator[list[Path]]:
    """A small disk in place of a folder of the next run; the list gets its place."""
    home = min(homes_of_hosts(operator.home))
    with contextlib.ExitStack() as stack:
        if folder in ("results", "logs", "checkpoints"):
            places = stack.enter_context(in_next_run(home / RUNS, folder, by))
        else:
            places = [stack.enter_context(small_disk(home / folder, by))]
        yield places


@contextlib.contextmanager
def bucket_of(operator: Operator, store: S3, name: str) -> Iterator[None]:
    """The cluster has a new bucket."""
    store.make_bucket(name)
    bucket = {"bucket": f"s3://{name}", "region": object_stores.REGION}
    with (
        with_rights(homes_of_hosts(operator.home), store),
        changed_cluster(operator, lambda _: bucket),
    ):
        yield


def check_curve(folder: Path, unbroken: Path) -> None:
    """Each step counts once, and the losses are those of the run without faults."""
    current, complete = records(folder / "metrics.jsonl"), records(unbroken / "metrics.jsonl")
    ours = {r.epoch or 0: r.figure("loss") or 0.0 for r in current if r.kind == "epoch"}
    theirs = {r.epoch or 0: r.figure("loss") or 0.0 for r in complete if r.kind == "epoch"}
    assert len([r for r in current if r.kind == "epoch"]) == len(ours)
    if not ours:  # it was resumed after its last step
        last = max(r.step or 0.0 for r in complete)
        assert {r.step for r in current if r.kind == "start"} == {last}
        return
    assert max(ours) == max(theirs)
    # An epoch that a resumed run begins in its middle has the mean of its own steps only.
    whole = sorted(ours) if len(ours) == len(theirs) else sorted(ours)[1:]
    assert all(math.isclose(ours[e], theirs[e], rel_tol=1e-4) for e in whole), (ours, theirs)
    steps = [r.step or 0.0 for r in current if r.kind == "progress" and r.rank == 0]
    assert steps == sorted({*steps})


def print_figures(survived: Survived) -> None:
    """Of each fault, the seconds to the next step, and those in which a training loads. A run that
    was resumed has the steps after its last fault: none if that was at its end."""
    folder, happened = survived.folder, survived.happened
    times = faults.step_times(folder / "metrics.jsonl")
    messages = [r for r in json_lines(folder / "metrics.jsonl") if r["kind"] == "message"]
    loading = [r["time"] for r in messages if "loading" in r["text"]]
    own = f"; TensorFlow's {times[0][0] - min(loading):.1f}" if loading and times else ""
    if happened and happened[-1][0] in faults.ENDS:
        happened = happened[-1:]
    for kind, at in happened:
        after = [t for t, _ in times if t > at + 1.5]
        if after:
            print(f"\nFIGURE {kind}: {after[0] - at:.1f} s to the next step{own}")
