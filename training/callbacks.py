"""Keras callbacks in our own loop.

They run in rank 0 alone, so that one process writes files. All ranks do what they decide, from the
end of the epoch on: the learning rate, and the end of the training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from .config import ConfigError, TrainConfig
from .learning.optimizer import Schedule
from .own import call
from .results import TrainingError
from .strategies.protocol import Strategy

BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
# Callbacks for what the training itself does, in all ranks.
REFUSED = {
    "BackupAndRestore": "checkpoints are settings: checkpoint_steps, checkpoint_minutes",
    "TensorBoard": "the training writes tensorboard/ itself",
    "SwapEMAWeights": "the setting is ema",
}


@dataclass(frozen=True)
class Decision:
    """What callbacks have decided: a factor of the learning rate, and the end of the training."""

    rate_scale: float = 1.0
    stop: bool = False


class Callbacks:
    """The callbacks of the settings; every process calls every method that decides."""

    def __init__(
        self, config: TrainConfig, strategy: Strategy, model: Any, epochs: int, steps: int
    ) -> None:
        """`steps`: of an epoch. ConfigError for a callback that cannot be used."""
        self.strategy = strategy
        self.active = bool(config.plateau_epochs or config.callbacks)
        callbacks = made(config) if strategy.rank == 0 else []
        self.rate = Rate()
        self.model = View(model, self.rate)
        self.list = keras.callbacks.CallbackList(
            callbacks, model=self.model, epochs=epochs, steps=steps, verbose=0
        )
        self.each_batch = any(
            not getattr(getattr(callback, hook), "_is_default", False)
            for callback in callbacks
            for hook in BATCH_HOOKS
        )
        self.initial: list[dict[str, float]] = []

    def begin(self, state: str) -> None:
        """Begin the training, with the `state` from a checkpoint; "" for none."""
        self._call("on_train_begin")
        self.initial = [_numbers(callback) for callback in self.list.callbacks]
        saved = json.loads(state or "[]")
        for callback, (name, numbers) in zip(self.list.callbacks, saved, strict=False):
            if name == type(callback).__name__:
                vars(callback).update(numbers)

    def state(self) -> str:
        """The numbers of each callback that have changed since the training began, as JSON."""
        changed = [
            (type(callback).__name__, dict(_numbers(callback).items() - before.items()))
            for callback, before in zip(self.list.callbacks, self.initial, strict=True)
        ]
        return json.dumps(changed) if changed else ""

    def epoch_begin(
        self, epoch: int, rate: Schedule, step: int, scale: float, resumed: bool = False
    ) -> Decision:
        """`epoch` counts from 0; `scale` is the factor of the rate so far. For a `resumed` epoch,
        the checkpoint already has what the callbacks did at its beginning."""
        self.rate.schedule, self.rate.step, self.rate.scale = rate, step, scale
        before = [_numbers(callback) for callback in self.list.callbacks]
        self._call("on_epoch_begin", epoch)
        if resumed:
            self.rate.scale = scale
            for callback, numbers in zip(self.list.callbacks, before, strict=True):
                vars(callback).update(numbers)
        return self._decision()

    def batch_begin(self, batch: int) -> None:
        """`batch` counts from 0 in each epoch."""
        if self.each_batch:
            self._call("on_train_batch_begin", batch)

    def batch_end(self, batch: int, logs: Callable[[], Mapping[str, float]]) -> None:
        """`logs` are the means of the epoch so far."""
        if self.each_batch:
            self._call("on_train_batch_end", batch, dict(logs()))

    def epoch_end(self, epoch: int, logs: Mapping[str, float | None], step: int) -> Decision:
        """`logs` are the metrics of the epoch; `step` counts all steps so far."""
        self.rate.step = step
        self._call("on_epoch_end", epoch, {k: v for k, v in logs.items() if v is not None})
        return self._decision()

    def end(self) -> None:
        """The training has ended."""
        self._call("on_train_end")

    def _call(self, hook: str, *arguments: Any) -> None:
        if self.list.callbacks:
            getattr(self.list, hook)(*arguments)

    def _decision(self) -> Decision:
        """Rank 0's decision, on every rank."""
        numbers = np.array([self.rate.scale, bool(self.model.stop_training)], np.float64)
        if self.active:
            numbers = self.strategy.total(numbers if self.strategy.rank == 0 else numbers * 0)
        return Decision(float(numbers[0]), bool(numbers[1]))


class Rate:
    """What callbacks see as the optimizer: the learning rate of the next step, which they may set.

    A rate that is set is a factor of the schedule's: warm-up and decay continue.
    """

    scale = 1.0
    step = 0
    schedule: Schedule

    @property
    def learning_rate(self) -> float:
        return self.schedule.unscaled_at(self.step) * self.scale

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        unscaled = self.schedule.unscaled_at(self.step)
        if unscaled > 0:
            self.scale = float(value) / unscaled


class View:
    """The model as callbacks see it."""

    def __init__(self, model: Any, optimizer: Rate) -> None:
        self._model, self.optimizer = model, optimizer
        self.stop_training = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def set_weights(self, *_: Any) -> None:
        """Refused: the other ranks would keep theirs."""
        raise TrainingError("a callback cannot change weights: it runs in rank 0 alone")

    load_weights = set_weights


def made(config: TrainConfig) -> list[Any]:
    """The callbacks that the settings name."""
    callbacks: list[Any] = []
    if config.plateau_epochs:
        plateau = keras.callbacks.ReduceLROnPlateau(
            patience=config.plateau_epochs, factor=config.plateau_factor
        )
        callbacks.append(plateau)
    for text in config.own_callbacks:
        place = text if ":" in text else f"keras.callbacks:{text}"
        for callback in call("callbacks", place):
            _check(callback, place)
            callbacks.append(callback)
    return callbacks


def _check(callback: Any, place: str) -> None:
    if not isinstance(callback, keras.callbacks.Callback):
        raise ConfigError(f"callbacks: {place} returned {callback!r}, not Keras callbacks")
    for kind in type(callback).__mro__:
        if kind.__name__ in REFUSED:
            reason = REFUSED[kind.__name__]
            raise ConfigError(f"callbacks: {kind.__name__} is not supported: {reason}")
    if getattr(callback, "restore_best_weights", False):
        text = "callbacks: restore_best_weights is not supported: the setting is restore_best"
        raise ConfigError(text)


def _numbers(callback: Any) -> dict[str, float]:
    """The attributes of a callback that are numbers, such as its counters."""
    items: Iterable[tuple[str, Any]] = vars(callback).items()
    return {
        name: value.item() if isinstance(value, np.number) else value
        for name, value in items
        if isinstance(value, (int, float, np.integer, np.floating)) and not name.startswith("_")
    }
