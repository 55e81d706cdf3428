"""One rank of a public example: FOLDER SCRIPT [ARGUMENT ...]. The script is not changed; the data
is random, with fewer epochs and steps.

Writes weights-NUMBER.json: the sum of the absolute weights of its model.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from standins.horovod_ranks.program import configure_threads

from railhead.keras_patches.horovod.rows import HOROVOD
from railhead.keras_patches.patch import install

STEPS, EPOCHS = 5, 2


def main() -> None:
    folder, models = Path(sys.argv[1]), list[Any]()
    install(HOROVOD, print)
    configure_threads()
    shorten(models)
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    variables = models[-1].trainable_variables  # moving averages are those of a rank
    weights = float(sum(np.abs(variable.numpy()).sum() for variable in variables))
    rank = os.environ["OMPI_COMM_WORLD_RANK"]
    (folder / f"weights-{rank}.json").write_text(json.dumps(weights))


def shorten(models: list[Any]) -> None:
    """Replace the data, shorten loops, and note the models that are trained."""
    import keras
    import tensorflow as tf

    random = np.random.default_rng(int(os.environ["OMPI_COMM_WORLD_RANK"]))
    images = random.integers(0, 255, (256, 28, 28)).astype("uint8")
    data = images, random.integers(0, 10, 256).astype("uint8")
    tf.keras.datasets.mnist.load_data = lambda path=None: (data, data)
    fit, take, checkpoint = keras.Model.fit, tf.data.Dataset.take, tf.train.Checkpoint

    def short_fit(self: Any, *args: Any, **options: Any) -> Any:
        models.append(self)
        options["epochs"] = min(options["epochs"], EPOCHS)
        options["steps_per_epoch"] = min(options["steps_per_epoch"], STEPS)
        return fit(self, *args, **{**options, "verbose": 0})

    def noted(**parts: Any) -> Any:
        models.append(parts["model"])
        return checkpoint(**parts)

    keras.Model.fit, tf.train.Checkpoint = short_fit, noted
    tf.data.Dataset.take = lambda self, count: take(self, min(count, STEPS * EPOCHS))


if __name__ == "__main__":
    main()
