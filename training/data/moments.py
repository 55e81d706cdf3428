"""The mean and the variance of training data: with them, models scale inputs and numeric labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 10_000  # records of shards that are read; they were shuffled when they were written
PIECE = 1 << 16  # values that are added up at once
MOST_VARIANCE = float(np.finfo(np.float32).max)
LEAST = 1e-6  # of the mean: a smaller deviation is rounding of float32


@dataclass(frozen=True)
class Moments:
    """`mean` and `variance` of the inputs as a model gets them: of each column of a table, of all
    values together otherwise; () for inputs without any, such as image files and words.
    `label_mean` and `label_deviation` are those of labels that are numbers."""

    mean: tuple[float, ...] = ()
    variance: tuple[float, ...] = ()
    label_mean: float = 0.0
    label_deviation: float = 1.0


def moments_of(samples: Any) -> Moments:
    """The moments of some samples; for shards, those of the first MOST records.

    Raises:
        DataError: shards cannot be read.
    """
    values, labels = samples.to_measure(MOST)
    label_mean, label_variance = _of_columns(np.asarray(labels).reshape(-1, 1))
    of_labels = (label_mean[0], label_variance[0] ** 0.5)
    if values is None or samples.inputs.vocabulary:
        return Moments((), (), *of_labels)
    scale = 255.0 if values.dtype == np.uint8 else 1.0  # bytes are pixels
    columns = values if values.ndim == 2 else values.reshape(-1, 1)
    mean, variance = _of_columns(columns, scale)
    return Moments(mean, variance, *of_labels)


def _of_columns(table: Any, scale: float = 1.0) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and variance of each column [rows, columns], divided by `scale`; a layer has them as
    float32, so a variance is at most MOST_VARIANCE. That of a column with one value is 1."""
    rows = max(1, PIECE // max(1, table.shape[1]))
    pieces = [slice(begin, begin + rows) for begin in range(0, len(table), rows)]
    mean = sum(table[piece].sum(axis=0, dtype=np.float64) for piece in pieces) / len(table)
    squares = sum(((table[piece] - mean) ** 2).sum(axis=0) for piece in pieces)
    variance = np.minimum(squares / len(table), MOST_VARIANCE)
    variance = np.where(variance > (LEAST * np.abs(mean)) ** 2, variance, scale**2)
    return tuple((mean / scale).tolist()), tuple((variance / scale**2).tolist())
