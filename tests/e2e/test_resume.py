"""Runs that were interrupted go on from their checkpoints, over two local SSH hosts."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.local import Person, marked, wait_until

SETTINGS = ("model=mlp", "epochs=4", "global_batch=64", "checkpoint_steps=5", "shift=0")
TRAIN = ("train", "--preset", "digits", *(x for s in SETTINGS for x in ("--set", s)))


def run_id(out: str) -> str:
    """The id in `run ID started`."""
    return next(line.split()[1] for line in out.splitlines() if line.endswith("breaks"))


def on_chief(person: Person, run: str) -> Path:
    """The run's folder on h1."""
    return person.home / f".railhead/clusters/ready/hosts/h1/home/.railhead/runs/{run}"


def losses(results: Path) -> dict[int, float]:
    """The loss after each epoch."""
    lines = (results / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {r["epoch"]: r["loss"] for r in records if r["kind"] == "epoch"}


def kill_rank(person: Person, rank: int) -> None:
    """kill -9 of one rank."""
    home = f"\0RAILHEAD_HOME={person.home}".encode()
    this = f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                around = b"\0" + (entry / "environ").read_bytes()
                ours = b"rank.py" in (entry / "cmdline").read_bytes() and home in around
                if ours and this in around:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def interrupted(person: Person, *words: str, after: str, seconds: float = 90) -> str:
    """Start a run, and kill one rank when its checkpoint folder has a match for `after`."""
    started = run_id(person.fab(*words, "--detach").ended(0).out)
    folder = on_chief(person, started) / "checkpoints"
    wait_until(lambda: any(folder.glob(after)), seconds, f"there is {after}")
    kill_rank(person, 1)
    wait_until(lambda: not marked(person.home), 30, "no process of the run is left")
    return started


@contextmanager
def only_first_host(person: Person) -> Iterator[None]:
    """The cluster has one host meanwhile."""
    path = person.home / ".railhead/clusters/ready/cluster.json"
    whole = path.read_text()
    document: dict[str, Any] = json.loads(whole)
    path.write_text(json.dumps({**document, "hosts": document["hosts"][:1]}))
    try:
        yield
    finally:
        path.write_text(whole)


def close(one: dict[int, float], other: dict[int, float], tolerance: float = 1e-4) -> bool:
    return all(math.isclose(other[epoch], loss, rel_tol=tolerance) for epoch, loss in one.items())


def test_a_killed_training_goes_on_and_its_losses_are_those_of_one_never_killed(
    person: Person,
) -> None:
    person.fab(*TRAIN).ended(0)
    whole = losses(person.last)
    killed = interrupted(person, *TRAIN, after="step-0000003?")
    person.fab("status", "--run", killed).ended(0, "checkpoints: step-000000", "on h1")

    done = person.fab("train", "--resume", killed).ended(0, "succeeded", "from step")
    assert f"resuming run {killed} from step-000000" in done.out
    again = losses(person.last)
    assert 4 in again and 1 not in again and close(again, whole), (whole, again)
    document = json.loads((person.last / "run.json").read_text())
    assert document["resumes"] == killed and document["program"]["settings"]["epochs"] == 4
    assert not (person.last / "checkpoints").exists()

    with only_first_host(person):
        person.fab("train", "--resume", killed).ended(0, "over 1 rank", "from step")
    alone = losses(person.last)
    assert 4 in alone and 1 not in alone and close(alone, whole, 0.2), (whole, alone)


def test_checkpoints_come_here_and_go_back_to_hosts_that_lost_them(person: Person) -> None:
    killed = interrupted(person, *TRAIN, after="step-0000001?")
    person.fab("fetch", "--run", killed, "--checkpoints").ended(0, "checkpoints/step-000000")
    here = person.folder / "results" / killed / "checkpoints"
    assert len(list(here.glob("step-*/manifest.json"))) == 1
    shutil.rmtree(on_chief(person, killed))
    done = person.fab("train", "--resume", killed).ended(0, "succeeded", "from step")
    assert f"in {here}" in done.out

    shutil.rmtree(here)
    shutil.rmtree(on_chief(person, killed), ignore_errors=True)
    person.fab("train", "--resume", killed).ended(2, "has no checkpoint", "on h1, h2", str(here))


def test_what_contradicts_the_run_is_refused(person: Person) -> None:
    person.fab("train", "--resume", "20200101-000000-aaaa").ended(2, "is not recorded here")
    done = person.fab("train", "--preset", "smoke").ended(0)
    run = run_id(done.out)
    for words, said in {
        ("--preset", "digits"): "--preset digits contradicts",
        ("--set", "epochs=9"): "--set epochs=9 contradicts",
        ("--script", "other.py"): "--script other.py contradicts",
        ("--keras", "2"): "--keras 2 contradicts",
    }.items():
        person.fab("train", "--resume", run, *words).ended(2, said, "goes on with the same")


# As Keras' own guide writes it, but for where the backup goes.
BACKUP = """
import os, time
import numpy as np
import keras

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Stay(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("epoch", epoch, "loss", logs["loss"], flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))

x = np.random.default_rng(0).normal(size=(64, 4))
backup = keras.callbacks.BackupAndRestore(os.environ["RAILHEAD_CHECKPOINT_DIR"] + "/backup")
model.fit(x, x.sum(1), epochs=6, verbose=0, shuffle=False, callbacks=[Stay(), backup])
"""


def test_a_program_with_backup_and_restore_goes_on_where_it_was_killed(person: Person) -> None:
    person.write("train.py", BACKUP)
    words = ("train", "--script", "train.py", "--launcher", "tensorflow", "--keras", "3")
    with only_first_host(person):
        person.fab(*words).ended(0, "succeeded")
        log = (person.last / "logs/rank-0.log").read_text()
        whole = [line for line in log.splitlines() if line.startswith("epoch")]
        assert len(whole) == 6

        started = run_id(person.fab(*words, "--env", "PAUSE=2", "--detach").ended(0).out)
        chief = on_chief(person, started)
        wait_until(lambda: "epoch 3" in (chief / "logs/rank-0.log").read_text(), 60, "epoch 3")
        kill_rank(person, 0)
        wait_until(lambda: not marked(person.home), 30, "no process of the run is left")
        person.fab("train", "--resume", started).ended(0, "succeeded")
    log = (person.last / "logs/rank-0.log").read_text()
    again = [line for line in log.splitlines() if line.startswith("epoch")]
    assert 0 < len(again) < 6 and again == whole[-len(again) :]
