"""The state of a training: what a checkpoint contains, how it is saved and how it is restored."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np

from ..config import ConfigError, TrainConfig
from ..job import Job
from ..results import Records, TrainingError
from ..strategies.protocol import Strategy
from ..variables import is_seed, moving, tensors_of
from .checkpoint import Beside, Checkpoint, Checkpoints, Position
from .memory import missing_memory
from .writer import WAIT, Writer

# With other values of these, a checkpoint would continue with other samples or arrays.
FIXED = (
    "data", "label", "input_feature", "label_feature", "image_size", "vocabulary", "text_length",
    "held_out", "task", "model", "optimizer", "seed", "ema", "unfreeze_epochs",
    "augment",
)  # fmt: skip
DEFAULTS = {item.name: item.default for item in fields(TrainConfig)}  # of an older checkpoint
# The fields of a position that processes add up as whole numbers.
COUNTS = (
    "step", "epoch", "samples", "global_batch", "lanes", "order", "waited", "done", "stopped",
)  # fmt: skip
CHECK_EVERY = 20  # steps after which the ranks agree whether minutes have passed
COST = 20  # a checkpoint of a better model waits for this multiple of the last one's duration
UNFINISHED = f"it was not complete after {WAIT:.0f} s: the disk does not answer, or is too slow"


class State:
    """The variables of a training and its checkpoints; every process calls every method."""

    def __init__(self, job: Job, strategy: Strategy, records: Records, *, samples: int) -> None:
        self.strategy, self.records, self.config = strategy, records, job.config
        self.resume = job.resume
        self.checkpoints = Checkpoints(job.checkpoints, job.config.checkpoint_keep)
        self.writer, self.copies = Writer(), True
        self.settings = {**asdict(job.config), "samples": samples}
        self.written = time.monotonic()
        self.cost = 0.0
        self.best: Sequence[Any] = ()  # weights of the best epoch, on rank 0

    def load(self) -> tuple[Position, Checkpoint | None]:
        """The position to begin at; rank 0 reads the files and sends the position to the others."""
        checkpoint: Checkpoint | None = None
        fault: Exception | None = None
        if self.strategy.rank == 0:
            try:
                checkpoint = self._find()
            except (TrainingError, ConfigError) as error:
                fault = error
        position = checkpoint.position if checkpoint else Position()
        numbers = np.array([*_numbers(position), bool(checkpoint), bool(fault)], np.float64)
        numbers = self.strategy.total(numbers if self.strategy.rank == 0 else numbers * 0)
        if numbers[-1]:
            raise fault or TrainingError("rank 0 cannot load the checkpoint")
        self.continues = bool(numbers[-2])
        return _position(numbers[:-2]), checkpoint

    def restore(self, checkpoint: Checkpoint | None, model: Any, optimizer: Any) -> None:
        """Give the variables of every process the checkpoint's values."""
        if not self.continues:
            return
        variables = [*model.variables, *optimizer.variables]
        shapes = [list(variable.shape) for variable in variables]
        wrong = self.strategy.rank == 0 and checkpoint is not None and checkpoint.shapes != shapes
        if self.strategy.total(np.array([float(wrong)]))[0]:
            raise TrainingError(
                f"the newest checkpoint in {self.checkpoints.folder} is of another model: "
                "its arrays have other shapes"
            )
        self._assign(variables, checkpoint.arrays if checkpoint else None)
        self.best = checkpoint.beside.best if checkpoint and self.config.exports_best else ()
        self._restore_moving(checkpoint.beside.moving if checkpoint else None, model)

    def keep_best(self, model: Any) -> None:
        """Keep the weights as they are now; all processes read them, rank 0 keeps them."""
        if self.config.exports_best:
            weights = self.strategy.values(tensors_of(model.weights))
            self.best = weights if self.strategy.rank == 0 else ()

    def restore_best(self, model: Any) -> bool:
        """Give every process the weights that were kept; False if rank 0 has none."""
        if not self.agree(len(self.best) > 0):
            return False
        self._assign(model.weights, self.best or None)
        return True

    def _assign(self, variables: Sequence[Any], arrays: Sequence[Any] | None) -> None:
        """Give the variables of every process rank 0's `arrays`; the others have None."""
        for index, variable in enumerate(variables):
            current = np.asarray(variable.value.numpy())
            values = np.zeros_like(current) if arrays is None else arrays[index]
            values = self.strategy.total(values.astype(np.float64)).astype(current.dtype)
            if is_seed(variable):  # each replica has its own seed; the count continues
                rows = self.strategy.replica_values(variable.value)
                rows[:, 1] = values[1]
                self.strategy.assign_replicas(variable.value, rows)
            else:
                variable.assign(values)

    def _moving(self, model: Any) -> Any:
        """Each replica's moving averages, float64 [replicas, values]; None if there is one."""
        variables = tensors_of(moving(model))
        if self.strategy.size == 1 or not variables:
            return None
        per_variable = [self.strategy.replica_values(variable) for variable in variables]
        own_rows = np.hstack([values.reshape(len(values), -1) for values in per_variable])
        rows = np.zeros((self.strategy.size, own_rows.shape[1]))
        rows[self.strategy.replicas] = own_rows
        return self.strategy.total(rows)

    def _restore_moving(self, rows: Any, model: Any) -> None:
        """Give each replica its moving averages of rank 0's `rows`, or the mean of all."""
        if not self.agree(rows is not None):
            return
        size, variables = self.strategy.size, tensors_of(moving(model))
        if rows is not None and len(rows) != size:
            text = f"moving averages: each of {size} replica(s) starts from the mean of {len(rows)}"
            self.records.emit("message", text=text)
            rows = np.repeat(rows.mean(axis=0, keepdims=True), size, axis=0)
        count = sum(math.prod(variable.shape) for variable in variables)
        rows = self.strategy.total(np.zeros((size, count)) if rows is None else rows)
        rows = rows[self.strategy.replicas]
        for variable in variables:
            width = math.prod(variable.shape)
            mine, rows = rows[:, :width], rows[:, width:]
            shape = (len(mine), *variable.shape)
            self.strategy.assign_replicas(
                variable, mine.reshape(shape).astype(variable.dtype.as_numpy_dtype)
            )

    def check_room(self, model: Any, optimizer: Any) -> None:
        """Refuse to start if the checkpoints do not fit on the disk."""
        if self.strategy.rank == 0 and self.enabled:
            self.checkpoints.check_room(self._size(model, optimizer))

    def _size(self, model: Any, optimizer: Any) -> int:
        """The bytes of the state, with the weights of the best epoch."""
        best = model.weights if self.config.exports_best else []
        return size_of(tensors_of([*model.variables, *optimizer.variables, *best]))

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are written at all."""
        return bool(self.config.checkpoint_steps or self.config.checkpoint_minutes)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is to be written after this step; the same on every rank. A
        checkpoint by minutes is not due while another is being written."""
        if self.config.checkpoint_steps and step % self.config.checkpoint_steps == 0:
            return True
        if not self.config.checkpoint_minutes or step % CHECK_EVERY:
            return False
        passed = time.monotonic() - self.written
        return self.agree(passed > self.config.checkpoint_minutes * 60 and not self.writer.busy)

    def due_for_best(self) -> bool:
        """Whether a better model is worth a checkpoint now; the same on every rank."""
        passed = time.monotonic() - self.written
        return self.enabled and self.agree(passed > COST * self.cost and not self.writer.busy)

    def agree(self, wish: bool) -> bool:
        """Rank 0's decision, on every rank."""
        return bool(self.strategy.total(np.array([float(wish and self.strategy.rank == 0)]))[0])

    def save(self, position: Position, model: Any, optimizer: Any, callbacks: str) -> None:
        """Copy the state on all processes at this step; rank 0 writes it while the training
        continues. It first waits for the previous checkpoint. `callbacks` is the state of the
        callbacks."""
        began = time.monotonic()
        idle = self.strategy.rank != 0 or self.finish()
        variables = tensors_of([*model.variables, *optimizer.variables])
        beside = Beside(self._moving(model), self.best, callbacks)
        arrays = (array for variable in variables for array in self.strategy.values([variable]))
        if self.strategy.rank == 0 and idle:
            has_memory = self._has_memory(self._size(model, optimizer))
            copy: Iterator[Any] = iter(list(arrays)) if has_memory else arrays
            write = partial(self.checkpoints.write, position, self.settings, copy, beside)
            if has_memory:
                self.writer.start(position.step, began, write)
            else:
                self.writer.write_now(position.step, began, write)
        for _ in arrays:  # reading may be work of all processes, so each reads all of them
            pass

    def _has_memory(self, size: int) -> bool:
        """Whether there is memory for a copy of the state. A lack of memory is reported once."""
        why = missing_memory(size)
        if why and self.copies:
            self.records.emit("message", text=f"the training waits for its checkpoints: {why}")
        self.copies = not why
        return self.copies

    def report(self) -> None:
        """Report the checkpoint that was completed since, or why it was not written."""
        if (done := self.writer.collect()) is None:
            return
        self.written, self.cost = time.monotonic(), done.seconds
        if done.error is None:
            self.records.emit(
                "checkpoint", step=done.step, pause_s=done.pause, write_s=done.seconds
            )
        elif isinstance(done.error, OSError):  # a full disk costs the checkpoint, not the training
            self.records.emit("message", text=f"no checkpoint was written: {done.error}")
        else:
            raise done.error

    def finish(self) -> bool:
        """Wait for the checkpoint that is being written, and report it; False if that takes too
        long."""
        finished = self.writer.wait()
        if not finished:
            self.records.emit("message", text=f"no checkpoint was written: {UNFINISHED}")
        self.report()
        return finished

    def _find(self) -> Checkpoint | None:
        """The checkpoint from which rank 0 continues, by the rule of the job."""
        folder = self.checkpoints.folder
        newest, faults = self.checkpoints.newest()
        for fault in faults:
            self.records.emit("message", text=f"{fault}; an older one is used")
        if self.resume == "required" and not newest:
            raise TrainingError(f"there is no checkpoint in {folder} to continue from")
        if self.resume == "refuse" and newest and not newest.position.done:
            raise ConfigError(
                f"{folder} holds an unfinished training (step {newest.position.step}): "
                "--resume continues it, --fresh starts over"
            )
        if self.resume in ("refuse", "fresh"):
            self.checkpoints.clear()
            return None
        if newest:
            self._check(newest)
        return newest

    def _check(self, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint of other samples, or of another order in its epoch, or of another
        model."""
        within_epoch = ("shuffle_window",) if checkpoint.position.samples else ()
        for name in (*FIXED, "samples", *within_epoch):
            before = checkpoint.settings.get(name, DEFAULTS.get(name))
            now = self.settings[name]
            if before != now:
                raise TrainingError(
                    f"the checkpoint in {self.checkpoints.folder} is of another training: "
                    f"{name} was {before}, and is {now}"
                )


def size_of(variables: Sequence[Any]) -> int:
    """The bytes of tf.Variables."""
    return sum(math.prod(variable.shape) * int(variable.dtype.size) for variable in variables)


def _numbers(position: Position) -> list[float]:
    """A position as numbers, which processes can add up: all but rank 0 add zeros."""
    counts = [float(getattr(position, name)) for name in COUNTS]
    loss = math.nan if position.best is None else position.best
    best = (0.0, 0.0) if math.isnan(loss) else (1.0, loss)
    return [*counts, *best, position.rate_scale, *position.tallies]


def _position(numbers: Any) -> Position:
    """The position that `_numbers` describes."""
    values: dict[str, Any] = {k: int(value) for k, value in zip(COUNTS, numbers, strict=False)}
    has_best, best, rate_scale, *tallies = (float(value) for value in numbers[len(COUNTS) :])
    values |= {"done": bool(values["done"]), "stopped": bool(values["stopped"])}
    values |= {"best": best if has_best else None, "rate_scale": rate_scale}
    return Position(**values, tallies=tuple(tallies))
