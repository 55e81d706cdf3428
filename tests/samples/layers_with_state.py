"""A model with both kinds of state besides weights: moving averages, and seeds of dropouts."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from training.config import TrainConfig
from training.data import Inputs


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """A linear model behind a batch normalisation and a dropout."""
    flat = [layers.Input(inputs.shape), layers.Flatten(), layers.BatchNormalization()]
    return keras.Sequential([*flat, layers.Dropout(0.5), layers.Dense(outputs, dtype="float32")])
