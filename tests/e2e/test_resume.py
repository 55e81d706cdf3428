"""Runs that were interrupted go on from their checkpoints, over two local SSH hosts."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import REPO, Operator, marked, wait_until
from standins import object_stores

SETTINGS = ("model=mlp", "epochs=4", "global_batch=64", "checkpoint_steps=5", "shift=0")
TRAIN = ("train", "--preset", "digits", *(x for s in SETTINGS for x in ("--set", s)))


def run_id(out: str) -> str:
    """The id in `run ID started`."""
    return next(line.split()[1] for line in out.splitlines() if line.endswith("breaks"))


def on_chief(operator: Operator, run: str) -> Path:
    """The run's folder on h1."""
    return operator.home / f".railhead/clusters/ready/hosts/h1/home/.railhead/runs/{run}"


def losses(results: Path) -> dict[int, float]:
    """The loss after each epoch."""
    lines = (results / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return {r["epoch"]: r["loss"] for r in records if r["kind"] == "epoch"}


def kill_rank(operator: Operator, rank: int) -> None:
    """kill -9 of one rank."""
    home = f"\0RAILHEAD_HOME={operator.home}".encode()
    this = f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                around = b"\0" + (entry / "environ").read_bytes()
                ours = b"rank.rank" in (entry / "cmdline").read_bytes() and home in around
                if ours and this in around:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def interrupted(operator: Operator, *words: str, after: str, seconds: float = 90) -> str:
    """Start a run, and kill one rank when its checkpoint folder has a match for `after`."""
    started = run_id(operator.fab(*words, "--detach").ended(0).out)
    folder = on_chief(operator, started) / "checkpoints"
    wait_until(lambda: any(folder.glob(after)), seconds, f"there is {after}")
    kill_rank(operator, 1)
    wait_until(lambda: not marked(operator.home), 30, "no process of the run is left")
    operator.fab("attach", "--run", started).ended(1, f"next: fab train --resume {started}")
    return started


@contextmanager
def changed_cluster(operator: Operator, change: Callable[[Any], Any]) -> Iterator[None]:
    """The cluster document is another one meanwhile."""
    path = operator.home / ".railhead/clusters/ready/cluster.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), **change(json.loads(whole))}))
    try:
        yield
    finally:
        path.write_text(whole)


def only_first_host(operator: Operator) -> AbstractContextManager[None]:
    """The cluster has one host meanwhile."""
    return changed_cluster(operator, lambda document: {"hosts": document["hosts"][:1]})


def close(one: dict[int, float], other: dict[int, float], tolerance: float = 1e-4) -> bool:
    return all(math.isclose(other[epoch], loss, rel_tol=tolerance) for epoch, loss in one.items())


def test_a_killed_training_goes_on_and_its_losses_are_those_of_one_never_killed(
    operator: Operator,
) -> None:
    operator.fab(*TRAIN).ended(0)
    whole = losses(operator.last)
    killed = interrupted(operator, *TRAIN, after="step-0000003?")
    operator.fab("status", "--run", killed).ended(0, "checkpoints: step-000000", "on h1")

    done = operator.fab("train", "--resume", killed).ended(0, "succeeded", "from step")
    assert f"resuming run {killed} from step-000000" in done.out
    again = losses(operator.last)
    assert 4 in again and 1 not in again and close(again, whole), (whole, again)
    document = json.loads((operator.last / "run.json").read_text())
    assert document["resumes"] == killed and document["program"]["settings"]["epochs"] == 4
    assert not (operator.last / "checkpoints").exists()

    with only_first_host(operator):
        operator.fab("train", "--resume", killed).ended(0, "over 1 rank", "from step")
    alone = losses(operator.last)
    assert 4 in alone and 1 not in alone and close(alone, whole, 0.2), (whole, alone)


def test_checkpoints_come_here_and_go_back_to_hosts_that_lost_them(operator: Operator) -> None:
    killed = interrupted(operator, *TRAIN, after="step-0000001?")
    operator.fab("fetch", "--run", killed, "--checkpoints").ended(0, "checkpoints/step-000000")
    here = operator.folder / "results" / killed / "checkpoints"
    assert len(list(here.glob("step-*/manifest.json"))) == 1
    shutil.rmtree(on_chief(operator, killed))
    done = operator.fab("train", "--resume", killed).ended(0, "succeeded", "from step")
    assert f"in {here}" in done.out

    shutil.rmtree(here)
    shutil.rmtree(on_chief(operator, killed), ignore_errors=True)
    operator.fab("train", "--resume", killed).ended(2, "has no checkpoint", "on h1, h2", str(here))


def test_what_contradicts_the_run_is_refused(operator: Operator) -> None:
    operator.fab("train", "--resume", "20200101-000000-aaaa").ended(2, "is not recorded here")
    done = operator.fab("train", "--preset", "smoke").ended(0)
    run = run_id(done.out)
    for words, message in {
        ("--preset", "digits"): "--preset digits contradicts",
        ("--set", "epochs=9"): "--set epochs=9 contradicts",
        ("--script", "other.py"): "--script other.py contradicts",
        ("--keras", "2"): "--keras 2 contradicts",
    }.items():
        operator.fab("train", "--resume", run, *words).ended(2, message, "--resume")
    assert max(operator.recorded()) == run, "nothing was started"


# Rows of a table as shards: `data` gives folders by name.
SHARDS = """
import sys
import numpy as np
from training.data.__main__ import main

x = np.random.default_rng(0).normal(size=(800, 8)).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("int64")
np.savez("train.npz", x=x[:640], y=y[:640])
np.savez("validation.npz", x=x[640:], y=y[640:])
for name in ("train", "validation"):
    arguments = ["shard", f"{name}.npz", f"shards/{name}", "--shards", "8", "--data", "numpy"]
    assert main(arguments) == 0
"""


def test_shards_give_one_host_the_steps_that_two_would_have_had(
    operator: Operator, runtime_python: str
) -> None:
    around = {**os.environ, "PYTHONPATH": str(REPO), "CUDA_VISIBLE_DEVICES": "-1"}
    make = [runtime_python, "-c", SHARDS]
    subprocess.run(make, cwd=operator.folder, env=around, check=True, timeout=120)
    settings = ("data=shards", "model=linear", "epochs=12", "global_batch=32", "checkpoint_steps=5")
    words = ["train", *(x for s in settings for x in ("--set", s))]
    words += ["--data", "train=shards/train", "--data", "validation=shards/validation"]
    operator.fab(*words).ended(0, "over 2 ranks")
    whole = losses(operator.last)

    killed = interrupted(operator, *words, after="step-000000[1-9]?")
    with only_first_host(operator):
        done = operator.fab("train", "--resume", killed).ended(0, "over 1 rank", "succeeded")
    assert re.search(r", from step [1-9]\d+", done.out), done.out
    log = (operator.last / "logs/rank-0.log").read_text()
    assert "Generator" not in log, log  # no warning of TensorFlow, at the interpreter's end either
    alone = losses(operator.last)
    assert 12 in alone and close(alone, whole), (whole, alone)


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


def test_a_program_with_backup_and_restore_goes_on_where_it_was_killed(operator: Operator) -> None:
    operator.write("train.py", BACKUP)
    words = ("train", "--script", "train.py", "--launcher", "tensorflow", "--keras", "3")
    with only_first_host(operator):
        operator.fab(*words).ended(0, "succeeded")
        log = (operator.last / "logs/rank-0.log").read_text()
        whole = [line for line in log.splitlines() if line.startswith("epoch")]
        assert len(whole) == 6

        started = run_id(operator.fab(*words, "--env", "PAUSE=2", "--detach").ended(0).out)
        printed = on_chief(operator, started) / "logs/rank-0.log"
        wait_until(lambda: printed.exists() and "epoch 3" in printed.read_text(), 200, "epoch 3")
        kill_rank(operator, 0)
        wait_until(lambda: not marked(operator.home), 30, "no process of the run is left")
        operator.fab("train", "--resume", started).ended(0, "succeeded")
    log = (operator.last / "logs/rank-0.log").read_text()
    again = [line for line in log.splitlines() if line.startswith("epoch")]
    assert 0 < len(again) < 6 and again == whole[-len(again) :]


def with_rights(operator: Operator, store: object_stores.S3) -> None:
    """The hosts have the store's address and its keys, as a role would give them."""
    config = f"""[default]
region = {object_stores.REGION}
endpoint_url = {store.endpoint}
aws_access_key_id = {object_stores.KEY}
aws_secret_access_key = {object_stores.SECRET}
s3 =
  addressing_style = path
"""
    for host in ("h1", "h2"):
        folder = operator.home / f".railhead/clusters/ready/hosts/{host}/home/.aws"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(config)


def make_hosts_again(operator: Operator) -> None:
    """Remove h1 and h2 with their homes, and start new ones: what a local stack does for
    `pulumi destroy` and `pulumi up`."""
    homes = operator.home / ".railhead/clusters/ready/hosts"
    marker = homes / "h1/home/of-the-first-machine"
    marker.touch()
    for words, given in (
        (("remove", "ready", "h1", "h2"), b""),
        (("start", "ready"), b'{"hosts": 2}'),
    ):
        command = [sys.executable, "-m", "bootstrap.clouds.local", *words]
        around = operator.environment()
        subprocess.run(command, input=given, env=around, cwd=REPO, check=True, capture_output=True)
    assert not marker.exists() and not (homes / "h1/home/.railhead").exists()


@pytest.mark.timeout(900)
def test_checkpoints_reach_the_bucket_during_the_run_and_new_machines_after_it(
    operator: Operator, s3_store: object_stores.S3
) -> None:
    s3_store.make_bucket("checkpoints-b")
    with_rights(operator, s3_store)
    bucket = {"bucket": "s3://checkpoints-b", "region": object_stores.REGION}
    env = s3_store.environ
    with changed_cluster(operator, lambda _: bucket):
        operator.fab("bootstrap", env=env, seconds=300).ended(0)
        words = [*TRAIN, "--set", "epochs=400", "--detach"]
        run = run_id(operator.fab(*words, env=env).ended(0).out)
        prefix = f"runs/{run}/"
        wait_until(
            lambda: f"{prefix}checkpoints/manifest.json" in s3_store.names("checkpoints-b", prefix),
            240,
            "a checkpoint is in the bucket",
        )
        assert marked(operator.home), "the run goes on"
        operator.fab("status", env=env).ended(0, "checkpoints: step-", "; uploaded: step-")
        kill_rank(operator, 1)
        wait_until(
            lambda: f"{prefix}manifest.json" in s3_store.names("checkpoints-b", prefix),
            120,
            "the results are in the bucket",
        )
        wait_until(lambda: not marked(operator.home), 30, "no process of the run is left")
    make_hosts_again(operator)
    with_rights(operator, s3_store)
    with changed_cluster(operator, lambda _: bucket):
        words = ["train", "--resume", run, "--detach"]
        resumed = operator.fab(*words, env=env, seconds=600).ended(0)
        assert f"in s3://checkpoints-b/runs/{run}" in resumed.out
        log = on_chief(operator, run_id(resumed.out)) / "results/metrics.jsonl"
        wait_until(lambda: log.exists() and ", from step" in log.read_text(), 240, "it goes on")
        operator.fab("cancel", env=env).ended(0)
