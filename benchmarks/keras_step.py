"""A step of `fit` with Keras 3 and its patches against Keras 2, under MultiWorkerMirroredStrategy
or Horovod.

    PYTHON -m benchmarks.keras_step [--horovod] [--rounds 5] [--steps 60]   a runtime's python

Two ranks on this machine train the same model on the same batches, with both versions in turns: in
the same processes, or, as a process with Horovod has one version, in launches. The median of the
rounds counts, of the CPU time of rank 0: on a busy machine, the time of the clock is that of the
other programs. Exit code 1: the limit is not kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from standins.runs.launches import tf_configs  # noqa: E402

from railhead.keras_patches import patch, rows  # noqa: E402

LIMIT = 1.05  # the time of a step with Keras 3, divided by that with Keras 2
BATCH = 128  # of both ranks together
RANKS = 2
CLOCKS = ("by the clock", "CPU time of rank 0")
LAUNCHES = 3  # with Horovod, of each version
VERSION = "KERAS_STEP_VERSION"  # of a rank with Horovod


def main() -> int:
    """Start the ranks; returns 0 if the limit is kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.keras_step", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="of a round")
    parser.add_argument("--together", type=int, default=1, help="steps_per_execution")
    parser.add_argument("--horovod", action="store_true")
    options = parser.parse_args()
    chosen = (options.rounds, options.steps, options.together)
    if "TF_CONFIG" in os.environ or VERSION in os.environ:
        (horovod_rank if VERSION in os.environ else rank)(*chosen)
        return 0
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    settings = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.keras_step", *sys.argv[1:]]
    if options.horovod:
        return int(not report(horovod_launches(command, {**os.environ, **settings})))
    processes = [
        subprocess.Popen(command, env={**os.environ, **settings, **variables}, stdout=target)
        for variables, target in zip(
            tf_configs({"worker": RANKS}), (subprocess.PIPE, subprocess.DEVNULL), strict=True
        )
    ]
    output = processes[0].communicate()[0].decode()
    if any(process.wait() for process in processes):
        return 1
    return int(not report(json.loads(output.splitlines()[-1])))


def horovod_launches(
    command: list[str], environment: dict[str, str]
) -> dict[str, list[tuple[float, float]]]:
    """The seconds of a step in each round of all launches, by version."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = ["mpirun", "--bind-to", "none", "--oversubscribe", "-mca", "mpi_yield_when_idle", "1"]
    seconds: dict[str, list[tuple[float, float]]] = {}
    for version in ("3", "2") * LAUNCHES:
        legacy = {"TF_USE_LEGACY_KERAS": "1"} if version == "2" else {}
        process = subprocess.run(
            [*mpirun, "-np", str(RANKS), *command],
            env={**environment, **root, **legacy, VERSION: version},
            stdout=subprocess.PIPE,
            check=True,
        )
        name, rounds = json.loads(process.stdout.splitlines()[-1])
        seconds.setdefault(name, []).extend(rounds)
    return seconds


def report(rounds: dict[str, list[tuple[float, float]]]) -> bool:
    """Print the milliseconds of a step: min, median, max; whether the limit is kept."""
    ratio = 0.0
    for number, clock in enumerate(CLOCKS):
        seconds = {name: [each[number] for each in values] for name, values in rounds.items()}
        for name, values in seconds.items():
            shown = (min(values), statistics.median(values), max(values))
            numbers = " ".join(f"{1000 * value:.2f}" for value in shown)
            print(f"{name}: {numbers} ms for a step, {clock}")
        three, two = seconds.values()
        ratio = statistics.median(a / b for a, b in zip(three, two, strict=True))
        print(f"Keras 3 / Keras 2, {clock}: {ratio:.3f}")
    print(f"limit {LIMIT}; load {os.getloadavg()[0]:.1f}")
    return ratio <= LIMIT


def rank(rounds: int, steps: int, together: int) -> None:
    """Train in turns; rank 0's last line of output is the seconds of a step in each round, by the
    clock and of the CPU."""
    patch.install(rows.patches_for("multiworker"), lambda line: print(line, file=sys.stderr))
    import keras
    import tensorflow as tf
    import tf_keras

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    epochs = {
        f"Keras {library.__version__}": epoch_of(library, strategy, steps, together)
        for library in (keras, tf_keras)
    }
    for epoch in epochs.values():
        epoch()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in epochs}
    for _ in range(rounds):
        for name, epoch in epochs.items():
            seconds[name].append(epoch())
    print(json.dumps(seconds))


def horovod_rank(rounds: int, steps: int, together: int) -> None:
    """Train with one version; rank 0 prints its name and the seconds of a step in each round."""
    if os.environ[VERSION] == "3":
        patch.install(rows.patches_for("horovod"), lambda line: print(line, file=sys.stderr))
    import horovod.tensorflow.keras as hvd
    import tensorflow as tf

    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    alone = SimpleNamespace(scope=contextlib.nullcontext)
    epoch = epoch_of(tf.keras, alone, steps, together, hvd.DistributedOptimizer)
    epoch()
    seconds = [epoch() for _ in range(rounds)]
    if hvd.rank() == 0:
        print(json.dumps([f"Keras {os.environ[VERSION]}", seconds]), flush=True)


def epoch_of(
    library: Any,
    strategy: Any,
    steps: int,
    together: int,
    distributed: Callable[[Any], Any] = lambda optimizer: optimizer,
) -> Callable[[], tuple[float, float]]:
    """A function that trains a small convolutional model for one epoch, and returns the seconds of
    a step, by the clock and of the CPU."""
    import tensorflow as tf

    of = library.layers
    with strategy.scope():
        model = library.Sequential(
            [
                of.Conv2D(16, 3, activation="relu", input_shape=(28, 28, 1)),
                of.MaxPooling2D(),
                of.Conv2D(32, 3, activation="relu"),
                of.MaxPooling2D(),
                of.Flatten(),
                of.Dense(10),
            ]
        )
        loss = library.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = distributed(library.optimizers.SGD(0.01, momentum=0.9))
        model.compile(optimizer, loss, metrics=["accuracy"], steps_per_execution=together)
    x = tf.random.stateless_uniform((BATCH, 28, 28, 1), (1, 2))
    y = tf.random.stateless_uniform((BATCH,), (1, 2), maxval=10, dtype=tf.int64)
    data = tf.data.Dataset.from_tensors((x, y)).repeat()

    class Clock(library.callbacks.Callback):  # type: ignore[misc]
        """The seconds of an epoch, without the start and the end of `fit`."""

        seconds = (0.0, 0.0)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.began = (time.perf_counter(), time.process_time())

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            began, cpu = self.began
            self.seconds = (time.perf_counter() - began, time.process_time() - cpu)

    clock = Clock()

    def epoch() -> tuple[float, float]:
        model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[clock])
        seconds, cpu = clock.seconds
        return seconds / steps, cpu / steps

    return epoch


if __name__ == "__main__":
    sys.exit(main())
