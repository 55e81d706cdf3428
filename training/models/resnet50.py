"""ResNet-50, from random weights or a file (`weights`): for many images, and GPUs."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ..config import TrainConfig
from ..data import Inputs
from ..results import TrainingError
from .pretrained import load_weights


def build(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Images must be at least 32 x 32; `weights` are those without the top layer."""
    if len(inputs.shape) != 3 or min(inputs.shape[:2]) < 32:
        raise TrainingError(f"model resnet50 needs images of 32 x 32 or more, not {inputs.shape}")
    base = keras.applications.ResNet50(
        include_top=False, weights=None, input_shape=inputs.shape, pooling="avg"
    )
    load_weights(base, config.weights, "resnet50")
    rows = [layers.Input(inputs.shape), base, layers.Dense(outputs, dtype="float32")]
    return keras.Sequential(rows, name="resnet50")
