"""One weight per pixel and class: the least model, for launch tests."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def build(shape: tuple[int, ...], classes: int) -> Any:
    """Softmax regression."""
    return keras.Sequential(
        [layers.Input(shape), layers.Flatten(), layers.Dense(classes)], name="linear"
    )
