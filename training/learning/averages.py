"""Weights averaged over the steps (`ema`), as the optimizer of Keras computes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ..variables import tensors_of


class Averages:
    """The averages of the trained weights; none if the optimizer computes none."""

    def __init__(self, optimizer: Any) -> None:
        self.rule = getattr(optimizer, "inner_optimizer", optimizer)
        self.weights: Sequence[Any] = ()
        if self.rule.use_ema:
            self.weights = tensors_of(self.rule._trainable_variables)
            self.averages = tensors_of(self.rule._model_variables_moving_average)

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """During the block the model has the averages."""
        weights = self.weights
        trained = [tf.identity(weight) for weight in weights]
        self.stay_in_model()
        yield
        for weight, value in zip(weights, trained, strict=True):
            weight.assign(value)
        self.weights = weights

    def stay_in_model(self) -> None:
        """From now on the model has the averages; before the first step there are none."""
        if self.weights and int(self.rule.iterations.numpy()):
            for weight, average in zip(self.weights, self.averages, strict=True):
                weight.assign(tf.identity(average))
        self.weights = ()
