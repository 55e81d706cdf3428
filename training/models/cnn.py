"""A small convolutional network for small images: for a first try on a CPU."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Two convolutions, one pooling, one hidden layer."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="cnn",
    )
