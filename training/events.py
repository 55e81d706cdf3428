"""TensorBoard events: what the records say, for `tensorboard --logdir results/tensorboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from .config import TrainConfig

FOLDER = "tensorboard"
FLUSH_MS = 10_000  # a value waits no longer for the file, if another one follows


class Events:
    """Writes scalars, and the profiler's window; does nothing on other ranks than 0."""

    def __init__(self, results: Path, rank: int, config: TrainConfig) -> None:
        self.folder = str(results / FOLDER)
        self.first, self.steps = config.profile_from, config.profile_steps
        self.writer = None
        if rank == 0:
            self.writer = tf.summary.create_file_writer(self.folder, flush_millis=FLUSH_MS)
        self.written: dict[str, int] = {}  # the last step of each curve

    def scalars(self, step: int, **values: float | None) -> None:
        """One point on each curve; a curve that has one at this step keeps it."""
        if self.writer is None:
            return
        # On a GPU a value would wait for the steps that are still computed there.
        with self.writer.as_default(), tf.device("cpu"):
            for name, value in values.items():
                if value is not None and self.written.get(name) != step:
                    self.written[name] = step
                    tf.summary.write(name, tf.constant(value, tf.float32), step, metadata=scalar())

    def profile(self, step: int) -> None:
        """Start and stop the profiler at its steps."""
        if self.writer is None or not self.first:
            return
        if step == self.first:
            tf.profiler.experimental.start(self.folder)
        elif step == self.first + self.steps:
            tf.profiler.experimental.stop()

    def close(self, step: int) -> None:
        """Write the remaining events."""
        if self.writer is None:
            return
        if self.first and self.first <= step < self.first + self.steps:
            tf.profiler.experimental.stop()
        self.writer.close()


def scalar() -> Any:
    """What tells TensorBoard that a value is a scalar: tf.summary.scalar needs TensorBoard itself,
    which TensorFlow 2.21 does not bring."""
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = "scalars"
    metadata.data_class = 1  # DATA_CLASS_SCALAR
    return metadata
