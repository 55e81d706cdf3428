"""Softmax or linear regression: the baseline that any other model must exceed."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Softmax regression; linear regression for a task with one output."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Flatten(),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="linear",
    )
