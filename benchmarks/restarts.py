"""How long a training stands still after the death of a rank: `fab train` beside Horovod's elastic
training.

    python -m benchmarks.restarts [--kills 5]

The same program with two ranks on this machine, one kill of a random rank in each launch, in turns.
`fab train` starts both ranks again from the last checkpoint, once its hosts have their spares: as
after the first minute of a training. `horovodrun` keeps the other rank in
its process, and continues with that one alone. What counts as a restart is the time from the kill
to the start of the new process: the rest is TensorFlow's. Exit code 1: its median is over LIMIT.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from e2e import faults, kept_environments  # noqa: E402
from e2e.launcher_runs import operator_of  # noqa: E402
from e2e.local_hosts import Operator, run_id, wait_for_spares, wait_until  # noqa: E402

from benchmarks.compiling import as_published  # noqa: E402

LIMIT = 5.0  # seconds
SECONDS = 300.0  # of a launch
STEPS = 8  # before the kill
SCRIPT = """
import os, time
print("begin", time.time(), flush=True)
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
weights, step = tf.Variable(tf.zeros((64, 10))), tf.Variable(0)
def train(save):
    while True:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_mean(tf.square(tf.random.normal((32, 64)) @ weights - 1.0))
        weights.assign_sub(0.01 * tape.gradient(loss, [weights])[0])
        step.assign_add(1)
        save()
        if hvd.rank() == 0:
            print("step", time.time(), int(step), flush=True)
        time.sleep(0.2)
if os.environ.get("HOROVOD_ELASTIC"):
    hvd.elastic.run(lambda state: train(state.commit))(
        hvd.elastic.TensorFlowState(variables=[weights, step])
    )
checkpoint = tf.train.Checkpoint(weights=weights, step=step)
folder = os.environ["RAILHEAD_CHECKPOINT_DIR"]
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)
hvd.broadcast_variables([weights, step], 0)
train(lambda: manager.save() if hvd.rank() == 0 else None)
"""
HOSTS = "#!/bin/sh\necho localhost:1\necho 127.0.0.1:1\n"
Times = dict[str, list[tuple[float, int]]]  # "begin" and "step": when, and the step or 0


def main() -> int:
    """Exit code 1 if the limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.restarts", description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="launches of each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = random.Random(options.seed)
    ours: list[tuple[float, float]] = []
    theirs: list[float] = []
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with ready() as (operator, peer):
        for number in range(options.kills):
            rank = chosen.randrange(2)
            ours.append(of_railhead(operator, rank))
            theirs.append(of_horovodrun(operator, peer, rank))
            (restart, start), elastic = ours[-1], theirs[-1]
            print(
                f"kill {number + 1}, rank {rank}: restart {restart:.1f} s, start {start:.1f} s;"
                f" horovodrun {elastic:.1f} s",
                flush=True,
            )
    restart, start = (median(values) for values in zip(*ours, strict=True))
    step = median(map(sum, ours))
    print(f"fab train: {step:.1f} s to the next step: restart {restart:.1f}, start {start:.1f}")
    print(f"horovodrun, one rank fewer: {median(theirs):.1f} s to the next step")
    print(f"ratio {step / median(theirs):.2f}; limit of the restart {LIMIT:g} s")
    return int(restart > LIMIT)


@contextlib.contextmanager
def ready() -> Iterator[tuple[Operator, Path]]:
    """Somebody with two local hosts that are ready, and the Python of `horovodrun`."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    row = kept_environments.DEFAULT
    with tempfile.TemporaryDirectory() as place, operator_of(Path(place), caches, row) as operator:
        operator.fab("bootstrap", seconds=3600).ended(0)
        operator.write("steps.py", SCRIPT)
        operator.write("hosts.sh", HOSTS).chmod(0o755)
        runtime = Path(kept_environments.python_of(operator.home)).parents[1]
        yield operator, with_gloo(runtime, Path(place))


def with_gloo(runtime: Path, place: Path) -> Path:
    """The Python of a copy of the runtime with a Horovod that has Gloo, which elastic training by
    `horovodrun` needs and ours lacks."""
    python = Path(shutil.copytree(runtime, place / "peer", symlinks=True)) / "bin/python"
    wheel = as_published(python, place / "published")
    argv = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]
    subprocess.run([*argv, str(wheel)], check=True)
    return python


def of_railhead(operator: Operator, rank: int) -> tuple[float, float]:
    """The seconds from the kill to the start of the new process, and from there to its step."""
    words = ("train", "--script", "steps.py", "--retries", "1", "--detach")
    run = run_id(operator.fab(*words).ended(0).out)
    log = operator.run_folder(run) / "logs/rank-0.log"
    try:
        wait_for_spares(operator, run)
        killed_at, times = killed(log, lambda: faults.happen(operator, f"rank {rank}"))
    finally:
        operator.fab("cancel", "--run", run)
    (begun,) = [when for when, _ in times["begin"] if when > killed_at]
    last = max(step for when, step in times["step"] if when < begun)
    return begun - killed_at, next(when for when, step in times["step"] if step > last) - begun


def of_horovodrun(operator: Operator, python: Path, rank: int) -> float:
    """The longest time between two steps after the kill, in seconds."""
    command = [str(python), "-m", "horovod.runner.launch", "-np", "2", "--min-np", "1"]
    command += ["--max-np", "2", "--host-discovery-script", "./hosts.sh", str(python), "steps.py"]
    log = operator.folder / "horovodrun.log"
    path = {"PATH": f"{python.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "-1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=operator.folder, env={**os.environ, **path}, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        killed_at, times = killed(log, lambda: kill_worker(rank))
        ends = [when for when, _ in times["step"]]
        return max(later - when for when, later in pairwise(ends) if later > killed_at)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def killed(log: Path, kill: Callable[[], object]) -> tuple[float, Times]:
    """Kill a rank when it has trained; when that was, and the lines up to a new step."""
    wait_until(lambda: len(times_in(log)["step"]) >= STEPS, SECONDS, "it trains")
    killed_at = time.time()
    kill()
    last = max(step for _, step in times_in(log)["step"])
    wait_until(lambda: times_in(log)["step"][-1][1] > last + 5, SECONDS, "it continues")
    return killed_at, times_in(log)


def times_in(log: Path) -> Times:
    """The lines of the program in a log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    times: Times = {"begin": [], "step": []}
    for event, when, step in re.findall(r"(begin|step) (\d+\.\d+) ?(\d*)\n", text):
        times[event].append((float(when), int(step or 0)))
    return times


def kill_worker(rank: int) -> None:
    """Kill the process that horovodrun has started for this rank."""
    for pid in faults.processes_with(f"\0HOROVOD_RANK={rank}\0", "\0steps.py\0"):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
