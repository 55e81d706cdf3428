"""1797 real handwritten digits of 8x8 pixels, built in; the last fifth is held out.

Origin: `digits.csv.gz` is the file of that name in scikit-learn 1.9.1 (sklearn/datasets/data),
unchanged; sha256 09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22. It is a copy of
the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI
Machine Learning Repository), digits of 13 people.
Licence: scikit-learn's BSD 3-Clause, in `digits.LICENSE` beside the file; the UCI repository gives
the data set itself under CC BY 4.0.
Each line is 64 pixels of 0..16, row by row, then the digit.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from ..arrays import Arrays

FILE = Path(__file__).with_name("digits.csv.gz")
HELD_OUT = 360
WHITE = 16.0


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Hold out the last fifth of the file, whatever the seed.

    The file is sorted by writer, so these digits are mostly by people whose writing is not in the
    training data. That is a harder test than a random fifth, and the same for every run.
    """
    samples = read_all()
    cut = len(samples) - HELD_OUT
    train, validation = slice(0, cut), slice(cut, len(samples))
    return {"train": samples.subset(train), "validation": samples.subset(validation)}


def read_all() -> Arrays:
    """All digits in the order of the file: values float32 [1797, 8, 8, 1]."""
    with gzip.open(FILE, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    values = table[:, :64].reshape(-1, 8, 8, 1) / np.float32(WHITE)
    return Arrays(values, table[:, 64].astype(np.int64), source="digits")
