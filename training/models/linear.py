"""Softmax or linear regression: the baseline that any other model must exceed."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs
from .normalize import normalization


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Softmax regression; linear regression for a task with one output. Columns of a table are
    brought to the same scale."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Flatten(),
            *(normalization(inputs) if len(inputs.shape) == 1 else []),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="linear",
    )
