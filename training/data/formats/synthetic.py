"""Generated images, without a folder: for launch tests and benchmarks.

The label is the brightest of the first ten pixels, so a loss that does not fall means a fault
(or a `shift` other than 0, which moves those pixels).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...config import TrainConfig
from ..arrays import Arrays

CLASSES = 10


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Make `config.synthetic_samples` images, the same on every rank; a fifth more is held out."""
    held_out = max(1, config.synthetic_samples // 5)
    return {"train": make(config.synthetic_samples, seed=1), "validation": make(held_out, seed=2)}


def make(count: int, *, seed: int) -> Arrays:
    """Noise of 8x8 pixels, the size of the digits, so that the same models fit both."""
    # RandomState's stream is frozen by NumPy's policy: hosts with other versions agree.
    values = np.random.RandomState(seed).random_sample((count, 8, 8, 1)).astype(np.float32)
    labels = values.reshape(count, -1)[:, :CLASSES].argmax(axis=1).astype(np.int64)
    names = tuple(str(number) for number in range(CLASSES))
    return Arrays(values, labels, names, source="synthetic")
