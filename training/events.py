"""TensorBoard events: what the records say, for `tensorboard --logdir results/tensorboard`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from .config import TrainConfig

FOLDER = "tensorboard"
FLUSH_MS = 10_000  # a value is written after this time, if another one follows
AGAIN = 10.0  # seconds from a failed write to a new file: the failed one accepts no more events


class Events:
    """Writes scalars, and the profiler's window; does nothing on other ranks than 0. A full disk
    loses events, and never ends the training; `report` says so once."""

    def __init__(
        self,
        results: Path,
        rank: int,
        config: TrainConfig,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder = str(results / FOLDER)
        self.first, self.steps = config.profile_from, config.profile_steps
        self.report, self.is_active = report, rank == 0
        self.writer: Any = None
        self.due, self.has_failed = 0.0, False
        self.written: dict[str, int] = {}  # the last step of each curve

    def _open(self, step: int) -> None:
        """Begin a file, if there is none and it is time."""
        if self.writer is None and time.monotonic() >= self.due:
            begin_again(Path(self.folder), step)
            self.writer = tf.summary.create_file_writer(self.folder, flush_millis=FLUSH_MS)

    def _try(self, write: Callable[[], object]) -> None:
        if not self.is_active:
            return
        try:
            write()
        except tf.errors.OpError as error:
            self.writer, self.due = None, time.monotonic() + AGAIN
            if not self.has_failed:
                why = (error.message or type(error).__name__).splitlines()[0]
                self.report(f"events for TensorBoard are missing: {why}"[:400])
            self.has_failed = True

    def scalars(self, step: int, **values: float | None) -> None:
        """One point on each curve; a curve that has one at this step keeps it."""
        self._try(lambda: self._write(step, values))

    def _write(self, step: int, values: Mapping[str, float | None]) -> None:
        self._open(step)
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
        if self.first and step == self.first:
            self._try(lambda: tf.profiler.experimental.start(self.folder))
        elif self.first and step == self.first + self.steps:
            self._try(tf.profiler.experimental.stop)

    def close(self, step: int) -> None:
        """Write the remaining events."""
        if self.first and self.first <= step < self.first + self.steps:
            self._try(tf.profiler.experimental.stop)
        if self.writer is not None:
            self._try(self.writer.close)


def begin_again(folder: Path, step: int) -> None:
    """Mark that an earlier attempt's points from this step on, if there are any, are replaced.

    Otherwise TensorBoard shows them twice, unless its data server reads them, which goes by the
    order of steps. Its other readers sort files by name: this one comes before the writer's.
    """
    if not any(folder.glob("*tfevents*")):
        return
    start = tf.compat.v1.SessionLog(status=tf.compat.v1.SessionLog.START)
    event = {"wall_time": time.time(), "step": step}
    path = folder / f"events.out.tfevents.{int(time.time())}.--restart"
    with tf.io.TFRecordWriter(str(path)) as file:
        file.write(tf.compat.v1.Event(**event, file_version="brain.Event:2").SerializeToString())
        for _ in range(2):  # the first one in a folder removes nothing
            file.write(tf.compat.v1.Event(**event, session_log=start).SerializeToString())


def scalar() -> Any:
    """What tells TensorBoard that a value is a scalar: tf.summary.scalar needs TensorBoard itself,
    which TensorFlow 2.21 does not bring."""
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = "scalars"
    metadata.data_class = 1  # DATA_CLASS_SCALAR
    return metadata
