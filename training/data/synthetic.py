"""Made-up images, for launch tests and for benchmarks of everything but the data.

The label is the brightest of the first ten pixels, so a loss that does not fall means a fault
(or a `shift` other than 0, which moves those pixels).
"""

from __future__ import annotations

import numpy as np

from training.config import TrainConfig
from training.data import Dataset, Samples

CLASSES = 10


def load(config: TrainConfig) -> Dataset:
    """Make `config.synthetic_samples` images, the same on every rank; a fifth more is held out."""
    train = make(config.synthetic_samples, seed=1)
    held_out = make(max(1, config.synthetic_samples // 5), seed=2)
    return Dataset("synthetic", train, held_out, classes=CLASSES)


def make(count: int, *, seed: int) -> Samples:
    """Noise of 8x8 pixels, as the digits, so that the models fit both."""
    # RandomState's stream is frozen by NumPy's policy: hosts with other versions agree.
    images = np.random.RandomState(seed).random_sample((count, 8, 8, 1)).astype(np.float32)
    labels = images.reshape(count, -1)[:, :CLASSES].argmax(axis=1).astype(np.int64)
    return Samples(images, labels)
