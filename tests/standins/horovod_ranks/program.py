"""One rank: mpirun starts it twice. Arguments: a folder, and the names of trainings and checks.

Writes rank-NUMBER.json: {name: {"failure": traceback or "", "seconds": CPU seconds}}. The models of
one process are trained before Horovod is imported, by Keras as it is installed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from standins.horovod_ranks.checks import CHECKS
from standins.horovod_ranks.trainings import (
    EPOCHS,
    RANKS,
    TRAININGS,
    UNEQUAL,
    difference,
    distributed,
    doubled,
    loop,
)

from bootstrap.host.rank import quick_import
from railhead.keras_patches.horovod.rows import HOROVOD
from railhead.keras_patches.patch import install


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    announced: list[str] = []
    quick_import.install()
    install(HOROVOD, announced.append)
    configure_threads()
    of_one_process = [name for name in TRAININGS if name in names][rank::RANKS]
    for name in of_one_process:
        np.save(folder / f"{name}.npy", expected(name), allow_pickle=True)
    hvd: Any = importlib.import_module("horovod.tensorflow.keras")
    hvd.FIRST = hvd.ProcessSet([0])
    hvd.init(process_sets=[hvd.FIRST])
    hvd.allreduce(0.0)  # the files of the other rank are there
    report: dict[str, Any] = {"announced": announced}
    for name in names:
        report[name] = outcome(name, hvd, rank, folder)
        (folder / f"rank-{rank}.json").write_text(json.dumps(report))


def configure_threads() -> None:
    """One thread: two ranks share few cores, and sums have the same order."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def expected(name: str) -> Any:
    """What one process makes of a training."""
    training = TRAININGS[name]
    both = {"doubled": doubled(training) if training.doubles else None}
    return np.array({**both, "loop": loop(training) if training.loops else None}, dtype=object)


def outcome(name: str, hvd: Any, rank: int, folder: Path) -> dict[str, Any]:
    """Run a training or a check. Layers have the same names on both ranks: Horovod's operations
    have them, too."""
    import keras

    keras.backend.clear_session()
    started = time.process_time()
    run: Callable[..., None] = CHECKS.get(name) or (lambda *args: compare(name, *args))
    failure = ""
    try:
        run(hvd, rank, folder)
    except BaseException:
        failure = traceback.format_exc()
    return {"failure": failure, "seconds": time.process_time() - started}


def compare(name: str, hvd: Any, rank: int, folder: Path) -> None:
    """The model of this rank is that of one process, and its losses are those of all ranks."""
    training = TRAININGS[name]
    one_process = np.load(folder / f"{name}.npy", allow_pickle=True).item()
    weights, losses = distributed(training, hvd, rank)
    ranks = hvd.allgather(np.concatenate([np.ravel(item) for item in weights])[np.newaxis]).numpy()
    averaged = hvd.allgather(np.array([losses])).numpy()
    assert len(losses) == EPOCHS and np.array_equal(*averaged), "MetricAverageCallback"
    assert np.array_equal(*ranks) == (name not in UNEQUAL)
    if one_process["loop"]:
        gap = difference(weights, one_process["loop"][rank])
        assert gap < training.tolerance, f"a plain loop: {gap}"
    if one_process["doubled"]:
        gap = difference(weights, one_process["doubled"][0])
        assert gap < training.tolerance, f"batches of twice the size: {gap}"
        gap = difference(losses, one_process["doubled"][1])
        assert gap < training.tolerance, f"losses: {gap}"


if __name__ == "__main__":
    main()
