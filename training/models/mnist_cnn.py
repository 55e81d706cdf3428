"""The MNIST network of SageMaker's SMDDP tutorial, with dropout: for gray images."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Two convolutions, pooling, dropout, one hidden layer, dropout."""
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="mnist_cnn",
    )
