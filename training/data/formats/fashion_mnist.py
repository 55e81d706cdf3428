"""Images of clothes in files of MNIST's format, with its file names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...config import TrainConfig
from . import idx


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """train-images..., train-labels... and, as test data, t10k-images..., t10k-labels..."""
    return idx.read(folder)


def fetch(config: TrainConfig) -> dict[str, Any]:
    """The same from where Keras has it."""
    from .download import arrays_of

    return arrays_of("fashion_mnist")
