"""Finds signatures whose rows mix, such as one that subtracts the mean of its batch.

Rows of several clients, and padding, must not share a call of such a signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .model import Model, Predict
from .signature import STRING, Signature, Tensor

ROWS = 8
LENGTHS = (1, 64)  # for a dimension without a length; a model may need more than 1
TOLERANCE = 5e-3  # of the largest output; GPUs round products to 11 bits (TensorFloat-32)
TOLERANCE_OF_HALF = 2e-2  # of types of two bytes


def find_mixed(model: Model, max_batch: int) -> tuple[Model, list[str]]:
    """The model with `mixes_rows` of its signatures, and the names of those that have it."""
    mixed = [
        name
        for name, signature in model.signatures.items()
        if signature.batches and not _rows_stay_apart(model.functions[name], signature, max_batch)
    ]
    changed = {name: replace(model.signatures[name], mixes_rows=True) for name in mixed}
    return replace(model, signatures={**model.signatures, **changed}), mixed


def _rows_stay_apart(predict: Predict, signature: Signature, max_batch: int) -> bool:
    """Whether rows have the same outputs alone and together; False if no trial succeeds."""
    for length in LENGTHS:
        try:
            rows = _trial_rows(signature, min(ROWS, max_batch), length)
            together = predict(rows)
            count = len(next(iter(rows.values())))
            alone = [predict({n: a[i : i + 1] for n, a in rows.items()}) for i in range(count)]
            return all(_alike(together[name], [each[name] for each in alone]) for name in together)
        except Exception:  # it takes other values only, or there is no memory for these
            continue
    return False


def _alike(together: Any, rows: Sequence[Any]) -> bool:
    if len({row.shape[1:] for row in rows}) > 1:  # such as the boxes that a detector keeps
        return False
    apart = np.concatenate(rows)
    if together.shape != apart.shape:
        return False
    if together.dtype.kind not in "fV":  # V: bfloat16
        return bool(np.array_equal(together, apart))
    share = TOLERANCE_OF_HALF if together.dtype.itemsize == 2 else TOLERANCE
    together, apart = together.astype("float64"), apart.astype("float64")
    largest = np.abs(apart[np.isfinite(apart)]).max(initial=0.0)
    return bool(np.allclose(together, apart, rtol=0, atol=share * largest, equal_nan=True))


def _trial_rows(signature: Signature, rows: int, length: int) -> dict[str, Any]:
    """Rows that differ: numbers from 0 to 1."""
    random = np.random.default_rng(7)
    return {tensor.name: _trial(tensor, rows, length, random) for tensor in signature.inputs}


def _trial(tensor: Tensor, rows: int, length: int, random: np.random.Generator) -> Any:
    shape = [rows, *(length if size is None else size for size in (tensor.shape or ())[1:])]
    if tensor.dtype == STRING:
        return random.choice(np.array([b"a", b"b"], dtype=object), shape)
    if np.dtype(tensor.dtype).kind in "biu":
        return random.integers(0, 2, shape).astype(tensor.dtype)
    return random.random(shape).astype(tensor.dtype)
