"""The mean of word vectors, one hidden layer: for texts in which the order matters little."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs
from ..results import TrainingError


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Texts are word numbers [batch, words]; 0 is padding and counts as no word."""
    if not inputs.vocabulary:
        raise TrainingError("model text needs texts, such as data=imdb")
    return keras.Sequential(
        [
            layers.Input(inputs.shape, dtype="int64"),
            layers.Embedding(inputs.vocabulary, 32, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.3),
            layers.Dense(32, activation="relu"),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="text",
    )
