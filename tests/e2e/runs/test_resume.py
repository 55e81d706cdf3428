"""Interrupted runs continue from their checkpoints, over two local SSH hosts."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from draws import drawn
from e2e import kept_environments
from e2e.local_hosts import (
    DIGITS,
    Operator,
    Training,
    changed_cluster,
    homes_of_hosts,
    json_lines,
    marked,
    only_first_host,
    run_id,
    wait_until,
    with_rights,
    with_settings,
)
from places import ROOT
from standins.stores import object_stores

from bootstrap.untrusted.records import records

TABLE = ("data=shards", "model=linear", "epochs=12", "global_batch=32", "checkpoint_steps=5")


def losses(results: Path) -> dict[int, float]:
    """The loss after each epoch."""
    records = json_lines(results / "metrics.jsonl")
    return {r["epoch"]: r["loss"] for r in records if r["kind"] == "epoch"}


def kill_rank(operator: Operator, rank: int) -> None:
    """kill -9 of one rank."""
    home = f"\0RAILHEAD_HOME={operator.home}".encode()
    number = f"\0OMPI_COMM_WORLD_RANK={rank}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = b"\0" + (entry / "environ").read_bytes()
            is_rank = b"rank.rank" in (entry / "cmdline").read_bytes()
            if is_rank and home in environment and number in environment:
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def interrupted(operator: Operator, *words: str) -> str:
    """Start a run, and kill its second rank when it has a checkpoint of the second epoch."""
    run = killed_in_epoch_2(operator, *words, "--retries", "0")
    wait_until(lambda: not marked(operator.home), 60, "no process of the run is left")
    operator.fab("attach", "--run", run).ended(1, f"next: fab train --resume {run}")
    return run


def killed_in_epoch_2(operator: Operator, *words: str) -> str:
    """Start a run, and kill its second rank when it has a checkpoint of the second epoch."""
    run = run_id(operator.fab(*words, "--detach").ended(0).out)
    folder = operator.run_folder(run) / "checkpoints"

    def steps() -> list[int]:
        names = [path.name.removeprefix("step-") for path in folder.glob("step-*")]
        return [int(name) for name in names if name.isdigit()]

    wait_until(lambda: max(steps(), default=0) >= 30, 200, "there is a checkpoint")
    kill_rank(operator, 1)
    return run


def assert_close(losses: dict[int, float], complete: dict[int, float]) -> None:
    """These are the losses of the complete training from a later epoch to its last one."""
    assert max(losses) == max(complete) and min(losses) > 1, (losses, complete)
    for epoch, loss in losses.items():
        assert math.isclose(complete[epoch], loss, rel_tol=1e-4), (losses, complete)


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


CONTRADICTIONS = {
    ("--preset", "smoke"): "--preset smoke contradicts",
    ("--set", "epochs=9"): "--set epochs=9 contradicts",
    ("--script", "other.py"): "--script other.py contradicts",
    ("--keras", "2"): "--keras 2 contradicts",
}


def assert_contradictions_are_refused(operator: Operator, run: str) -> None:
    """A resume with other settings than those of its run starts nothing."""
    runs = operator.recorded()
    operator.fab("train", "--resume", "20200101-000000-aaaa").ended(2, "is not recorded here")
    for words, message in CONTRADICTIONS.items():
        operator.fab("train", "--resume", run, *words).ended(2, message, "--resume")
    assert operator.recorded() == runs, "nothing was started"


def continue_digits_from_fetched_checkpoints(operator: Operator, trained: Training) -> None:
    """The checkpoints were fetched, and the chief has lost them."""
    killed = interrupted(operator, *with_settings(DIGITS))
    assert_contradictions_are_refused(operator, killed)
    operator.fab("fetch", "--run", killed, "--checkpoints").ended(0, "checkpoints/step-0000")
    fetched = operator.folder / "results" / killed / "checkpoints"
    assert len([*fetched.glob("step-*/manifest.json")]) == 1
    shutil.rmtree(operator.run_folder(killed))
    done = operator.fab("train", "--resume", killed).ended(0, "succeeded", "from step")
    assert f"in {fetched}" in done.out
    assert_continued(operator, killed, epochs=8)
    assert_close(losses(operator.last), losses(trained.results))

    shutil.rmtree(fetched)
    shutil.rmtree(operator.run_folder(killed), ignore_errors=True)
    without = operator.fab("train", "--resume", killed)
    without.ended(2, "has no checkpoint", "on h1, h2", str(fetched))


def continue_shards_on_one_host(operator: Operator, runtime_python: str) -> None:
    """The chief has the checkpoints; alone it takes the steps that two hosts would have taken."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    write = [runtime_python, "-c", SHARDS]
    subprocess.run(write, cwd=operator.folder, env=environment, check=True, timeout=280)
    data = ("--data", "train=shards/train", "--data", "validation=shards/validation")
    train = (*with_settings(TABLE), *data)
    operator.fab(*train).ended(0, "over 2 ranks")
    complete = losses(operator.last)
    killed = interrupted(operator, *train)
    assert_contradictions_are_refused(operator, killed)
    operator.fab("status", "--run", killed).ended(0, "checkpoints: step-0000", "on h1")
    with only_first_host(operator):
        done = operator.fab("train", "--resume", killed).ended(0, "over 1 rank", "succeeded")
    assert f"resuming run {killed} from step-0000" in done.out
    assert re.search(r", from step [1-9]\d+", done.out), done.out
    assert_continued(operator, killed, epochs=12)
    assert_close(losses(operator.last), complete)


def continue_digits_without_a_command(operator: Operator, trained: Training) -> None:
    """The supervisor starts the run again: one loss curve, in which no step is missing or twice."""
    killed = killed_in_epoch_2(operator, *with_settings(DIGITS))
    done = operator.fab("attach", "--run", killed).ended(0, "succeeded", "started again from step")
    assert "host: killed by signal 9 (rank 1 on h2)" in done.out
    (attempt,) = operator.result()["attempts"]
    assert (attempt["kind"], attempt["culprit"]["rank"]) == ("retry", 1)
    assert attempt["from_step"] >= 30 and attempt["from_step"] % 5 == 0
    assert "resumes" not in operator.result()
    current = records(operator.last / "metrics.jsonl")
    complete = records(trained.results / "metrics.jsonl")
    assert [r.epoch for r in current if r.kind == "epoch"] == [*range(1, 9)]
    steps = [r.step or 0.0 for r in current if r.kind == "progress" and r.rank == 0]
    last = [r.step for r in complete if r.kind == "progress"][-1]
    assert steps == sorted({*steps}) and steps[-1] == last
    ours, theirs = losses(operator.last), losses(trained.results)
    assert all(math.isclose(theirs[epoch], ours[epoch], rel_tol=1e-4) for epoch in theirs), ours


def assert_continued(operator: Operator, killed: str, epochs: int) -> None:
    """The last run resumed the other one with its settings, and left no checkpoint here."""
    document = json.loads((operator.last / "run.json").read_text())
    assert document["resumes"] == killed
    assert document["program"]["settings"]["epochs"] == epochs
    assert not (operator.last / "checkpoints").exists()
    log = (operator.last / "logs/rank-0.log").read_text()
    assert "Generator" not in log, log  # a warning of TensorFlow at the interpreter's end


@pytest.mark.timeout(900)
def test_a_killed_training_continues_with_the_losses_of_one_that_was_never_killed(
    operator: Operator, request: pytest.FixtureRequest
) -> None:
    variant = drawn(("fetched", "on one host", "without a command"))
    if variant == "fetched":
        continue_digits_from_fetched_checkpoints(operator, request.getfixturevalue("trained"))
    elif variant == "without a command":
        continue_digits_without_a_command(operator, request.getfixturevalue("trained"))
    else:
        continue_shards_on_one_host(operator, request.getfixturevalue("runtime_python"))


# As Keras' own guide writes it, but for the place of the backup; killed in its fourth epoch, or,
# with an argument, hanging there.
BACKUP = """
import os, signal, sys, time
import numpy as np
import keras

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
folder = os.environ["RAILHEAD_CHECKPOINT_DIR"]

class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("epoch", epoch, "loss", logs["loss"], flush=True)
        if epoch == 3 and not os.path.exists(folder + "/killed"):
            open(folder + "/killed", "w").close()
            if sys.argv[1:]:
                time.sleep(3600)
            os.kill(os.getpid(), signal.SIGKILL)

x = np.random.default_rng(0).normal(size=(64, 4))
backup = keras.callbacks.BackupAndRestore(folder + "/backup")
model.fit(x, x.sum(1), epochs=6, verbose=0, shuffle=False, callbacks=[Report(), backup])
"""


def test_a_program_with_backup_and_restore_continues_where_it_was_killed(
    operator: Operator,
) -> None:
    """Plain gradient descent: the loss falls in each epoch, so weights from the start show."""

    def epochs() -> list[tuple[int, float]]:
        log = (operator.last / "logs/rank-0.log").read_text()
        pairs = re.findall(r"epoch (\d+) loss ([\d.e-]+)", log)
        return [(int(epoch), float(loss)) for epoch, loss in pairs]

    operator.write("train.py", BACKUP)
    with only_first_host(operator):
        words = ("train", "--script", "train.py", "--launcher", "tensorflow", "--keras", "3")
        variant = drawn(("a resume", "without a command", "a stall"))
        if variant == "a resume":
            operator.fab(*words, "--retries", "0").ended(1, "killed by signal 9")
            killed = epochs()
            assert [epoch for epoch, _ in killed] == [0, 1, 2, 3]
            operator.fab("train", "--resume", operator.last.name).ended(0, "succeeded")
            resumed = epochs()
        else:
            stall = ("--args", "hang", "--on-stall", "restart", "--stall-after", "4")
            more = stall if variant == "a stall" else ()
            operator.fab(*words, *more).ended(
                0, "started again from its checkpoint files", "succeeded"
            )
            (attempt,) = operator.result()["attempts"]
            assert attempt["cause"]["class"] == ("stall" if variant == "a stall" else "host")
            killed, resumed = epochs()[:4], epochs()[4:]
    assert [epoch for epoch, _ in resumed] == [3, 4, 5], "it began with the epoch of the kill"
    assert resumed[0] == pytest.approx(killed[3])
    assert [loss for _, loss in resumed] == sorted((loss for _, loss in resumed), reverse=True)


def make_hosts_again(operator: Operator) -> None:
    """Remove h1 and h2 with their homes, and start new ones: what a local stack does for
    `pulumi destroy` and `pulumi up`."""
    homes = operator.home / ".railhead/clusters/ready/hosts"
    marker = homes / "h1/home/of-the-first-machine"
    marker.touch()
    with kept_environments.alone(operator.caches) as kept:
        kept_environments.keep(kept, operator.home)
        for verb in ("remove", "start"):
            command = [sys.executable, "-m", "bootstrap.clouds.local", verb, "ready", "h1", "h2"]
            environment = operator.environment()
            subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True)
        assert not marker.exists() and not (homes / "h1/home/.railhead").exists()
        kept_environments.give_to_hosts(kept, operator.home)


@pytest.mark.timeout(900)
def test_checkpoints_reach_the_bucket_during_the_run_and_new_machines_after_it(
    operator: Operator, s3_store: object_stores.S3
) -> None:
    s3_store.make_bucket("checkpoints-b")
    bucket = {"bucket": "s3://checkpoints-b", "region": object_stores.REGION}
    env = s3_store.environ

    def is_there(name: str) -> bool:
        return f"{prefix}{name}" in s3_store.names("checkpoints-b", prefix)

    with (
        with_rights(homes_of_hosts(operator.home), s3_store),
        changed_cluster(operator, lambda doc: {**bucket, "hosts": doc["hosts"][:1]}),
    ):
        words = [*with_settings((*DIGITS, "epochs=4000", "checkpoint_steps=100")), "--detach"]
        words += ["--retries", "0"]
        run = run_id(operator.fab(*words, env=env, seconds=600).ended(0).out)
        prefix = f"runs/{run}/"
        wait_until(lambda: is_there("checkpoints/manifest.json"), 240, "a checkpoint is stored")
        assert marked(operator.home), "the run continues"
        operator.fab("status", env=env).ended(0, "checkpoints: step-", "; uploaded: step-")
        kill_rank(operator, 0)
        wait_until(lambda: is_there("manifest.json"), 120, "the results are in the bucket")
        wait_until(lambda: not marked(operator.home), 60, "no process of the run is left")
    make_hosts_again(operator)
    with (
        with_rights(homes_of_hosts(operator.home), s3_store),
        changed_cluster(operator, lambda _: bucket),
    ):
        words = ["train", "--resume", run, "--detach"]
        resumed = operator.fab(*words, env=env, seconds=600).ended(0)
        assert f"in s3://checkpoints-b/runs/{run}" in resumed.out
        log = operator.run_folder(run_id(resumed.out)) / "results/metrics.jsonl"
        wait_until(lambda: log.exists() and ", from step" in log.read_text(), 240, "it continues")
        operator.fab("cancel", env=env).ended(0)
