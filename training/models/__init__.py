"""Models by name. Each module's `build(shape, classes)` returns a Keras model that gives logits."""

from __future__ import annotations

import importlib
from typing import Any

MODELS = {"cnn": "training.models.cnn", "linear": "training.models.linear"}


def build(name: str, *, shape: tuple[int, ...], classes: int) -> Any:
    """Build the model of that name for images of `shape` (height, width, channels)."""
    return importlib.import_module(MODELS[name]).build(shape, classes)
