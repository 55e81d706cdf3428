"""Batch normalization, then two hidden layers: for tables, also with columns of other scales."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Two hidden layers; the first layer brings columns of any scale to the same one."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Flatten(),
            layers.BatchNormalization(),
            layers.Dense(64, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="mlp",
    )
