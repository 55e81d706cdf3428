"""The state of a training: what a checkpoint holds, how it is taken and how it is put back."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from training.checkpoint import Checkpoint, Checkpoints, Position
from training.config import ConfigError, TrainConfig
from training.job import Job
from training.results import Records, TrainingError
from training.strategies.protocol import Strategy
from training.variables import is_seed, tensors_of

# A checkpoint of a training with another value of these would go on with other samples or arrays.
FIXED = ("data", "task", "model", "optimizer", "seed", "held_out", "image_size", "text_length")
CHECK_EVERY = 20  # steps after which the ranks agree whether minutes have passed
COST = 20  # a checkpoint of a better model waits for so many times the last one's duration


class State:
    """The variables of a training and its checkpoints; every process calls every method."""

    def __init__(self, job: Job, strategy: Strategy, records: Records, *, samples: int) -> None:
        self.strategy, self.records, self.config = strategy, records, job.config
        self.resume = job.resume
        self.checkpoints = Checkpoints(job.checkpoints, job.config.checkpoint_keep)
        self.settings = {**asdict(job.config), "samples": samples}
        self.written = time.monotonic()
        self.cost = 0.0

    def load(self) -> tuple[Position, Checkpoint | None]:
        """Where to begin; rank 0 reads the files, the others learn the position from it."""
        found: Checkpoint | None = None
        fault: Exception | None = None
        if self.strategy.rank == 0:
            try:
                found = self._find()
            except (TrainingError, ConfigError) as error:
                fault = error
        position = found.position if found else Position()
        numbers = np.array([*_numbers(position), bool(found), bool(fault)], np.float64)
        numbers = self.strategy.total(numbers if self.strategy.rank == 0 else numbers * 0)
        if numbers[-1]:
            raise fault or TrainingError("rank 0 cannot load the checkpoint")
        self.found = bool(numbers[-2])
        return _position(numbers[:-2]), found

    def restore(self, found: Checkpoint | None, model: Any, optimizer: Any) -> None:
        """Give the variables of every process the checkpoint's values."""
        if not self.found:
            return
        variables = [*model.variables, *optimizer.variables]
        shapes = [list(variable.shape) for variable in variables]
        wrong = self.strategy.rank == 0 and found is not None and found.shapes != shapes
        if self.strategy.total(np.array([float(wrong)]))[0]:
            raise TrainingError(
                f"the newest checkpoint in {self.checkpoints.folder} is of another model: "
                "its arrays have other shapes"
            )
        for index, variable in enumerate(variables):
            own = np.asarray(variable.value.numpy())
            values = found.arrays[index] if found else np.zeros_like(own)
            values = self.strategy.total(values.astype(np.float64)).astype(own.dtype)
            if is_seed(variable):  # each rank has its own seed; the count goes on
                values = np.array([own[0], values[1]], own.dtype)
            variable.assign(values)

    def check_room(self, model: Any, optimizer: Any) -> None:
        """Refuse to start where the checkpoints do not fit on the disk."""
        if self.strategy.rank == 0 and self.enabled:
            variables = [*model.variables, *optimizer.variables]
            size = sum(math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in variables)
            self.checkpoints.check_room(size)

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are written at all."""
        return bool(self.config.checkpoint_steps or self.config.checkpoint_minutes)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is to be written after this step; the same on every rank."""
        if self.config.checkpoint_steps and step % self.config.checkpoint_steps == 0:
            return True
        if not self.config.checkpoint_minutes or step % CHECK_EVERY:
            return False
        return self.agree(time.monotonic() - self.written > self.config.checkpoint_minutes * 60)

    def due_for_best(self) -> bool:
        """Whether a better model is worth a checkpoint now; the same on every rank."""
        passed = time.monotonic() - self.written
        return self.enabled and self.agree(passed > COST * self.cost)

    def agree(self, wish: bool) -> bool:
        """Rank 0's wish, on every rank."""
        return bool(self.strategy.total(np.array([float(wish and self.strategy.rank == 0)]))[0])

    def save(self, position: Position, model: Any, optimizer: Any) -> None:
        """Write a checkpoint: all processes read the variables, rank 0 writes."""
        begin = time.monotonic()
        variables = [*model.variables, *optimizer.variables]
        arrays = self.strategy.values(tensors_of(variables))
        if self.strategy.rank == 0:
            try:
                self.checkpoints.write(position, self.settings, arrays)
                self.records.emit("checkpoint", step=position.step)
            except OSError as error:  # a full disk costs the checkpoint, not the training
                self.records.emit("message", text=f"no checkpoint was written: {error}")
        self.written = time.monotonic()
        self.cost = self.written - begin

    def _find(self) -> Checkpoint | None:
        """Rank 0's checkpoint to go on with, by the rule that the job gives."""
        folder = self.checkpoints.folder
        found, faults = self.checkpoints.newest()
        for fault in faults:
            self.records.emit("message", text=f"{fault}; an older one is used")
        if self.resume == "required" and not found:
            raise TrainingError(f"there is no checkpoint in {folder} to go on with")
        if self.resume == "refuse" and found and not found.position.done:
            raise ConfigError(
                f"{folder} holds an unfinished training (step {found.position.step}): "
                "--resume goes on with it, --fresh starts again"
            )
        if self.resume in ("refuse", "fresh"):
            self.checkpoints.clear()
            return None
        if found:
            self._check(found)
        return found

    def _check(self, found: Checkpoint) -> None:
        """Refuse a checkpoint whose samples or model are others."""
        for name in (*FIXED, "samples"):
            before, now = found.settings.get(name), self.settings[name]
            if before != now:
                raise TrainingError(
                    f"the checkpoint in {self.checkpoints.folder} is of another training: "
                    f"{name} was {before}, and is {now}"
                )


def plan_start(config: TrainConfig, replicas: int, position: Position) -> int:
    """The global batch: that of the checkpoint, else of the settings."""
    return position.global_batch or config.global_batch or config.batch_size * replicas


def _numbers(at: Position) -> list[float]:
    """A position as numbers, which processes can add up: all but rank 0 add zeros."""
    counts = (at.step, at.epoch, at.samples, at.global_batch, at.lanes, at.waited, at.done)
    best = (0.0, 0.0) if at.best is None or math.isnan(at.best) else (1.0, at.best)
    return [*map(float, counts), *best, *at.tallies]


def _position(numbers: Any) -> Position:
    """The position that `_numbers` describes."""
    *counts, has_best = (int(value) for value in numbers[:8])
    step, epoch, samples, global_batch, lanes, waited, done = counts
    return Position(
        step=step,
        epoch=epoch,
        samples=samples,
        global_batch=global_batch,
        lanes=lanes,
        tallies=tuple(float(value) for value in numbers[9:]),
        best=float(numbers[8]) if has_best else None,
        waited=waited,
        done=bool(done),
    )
