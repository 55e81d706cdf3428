"""A frozen MobileNetV2 and one new layer; `weights` is a file or `imagenet`: for few photos."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs
from ..results import TrainingError
from .pretrained import load_weights


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Only the last layer is trained; `weights` is a file, or imagenet if it can be fetched."""
    if len(inputs.shape) != 3 or inputs.shape[2] != 3 or min(inputs.shape[:2]) < 32:
        raise TrainingError(
            f"model transfer needs RGB images of 32 x 32 or more, not {inputs.shape}"
        )
    if not config.weights:
        raise TrainingError("model transfer needs weights: --set weights=FILE, or imagenet")
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=inputs.shape, pooling="avg"
    )
    load_weights(base, config.weights, "mobilenet_v2")
    base.trainable = False
    return keras.Sequential(
        [
            layers.Input(inputs.shape),
            layers.Rescaling(2.0, offset=-1.0),  # from 0..1 to the -1..1 that it learned with
            base,
            layers.Dropout(0.2),
            layers.Dense(outputs, dtype="float32"),
        ],
        name="transfer",
    )
