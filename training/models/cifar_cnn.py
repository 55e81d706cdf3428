"""Six convolutions without batch normalization: for CIFAR-10, color images of 32 x 32."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Three blocks of two convolutions, one hidden layer."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.2),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.3),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.4),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="cifar_cnn",
    )
