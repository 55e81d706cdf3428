"""Samples that fit in memory: arrays of inputs and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import DataError, Inputs

PIXEL = 255.0
PIECE = 1 << 16  # values that are checked at once: they stay in the processor's cache


@dataclass(frozen=True)
class Arrays:
    """Values [samples, ...] and labels [samples], of several classes per sample [samples, classes].
    Bytes are pixels: a model gets them as 0..1.

    `factors` [samples] multiply the loss of each sample; None if all are 1. `columns` are the names
    of the inputs of a table. `ignored` describes what else the source contains. `place` names a
    value [sample, ...] or a label [sample] by its index in `source`; the samples of a part have
    other numbers, and no place. `fill` stands for missing values of a table; `as_in` reads the
    table again with other `columns` and `fill`.
    """

    values: Any
    labels: Any
    classes: tuple[str, ...] = ()
    vocabulary: int = 0
    source: str = "the data"
    columns: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    place: Callable[[tuple[int, ...]], str] | None = None
    factors: Any = None
    fill: tuple[float, ...] = ()
    as_in: Callable[[tuple[str, ...], tuple[float, ...]], Arrays] | None = None

    def __post_init__(self) -> None:
        if len(self.values) != len(self.labels):
            raise DataError(
                f"{self.source} has {len(self.values)} inputs, but {len(self.labels)} labels"
            )
        if self.factors is not None and (fault := self._fault_of_factors()):
            raise DataError(f"{self.source}: sample_weights must be {fault}")

    def _fault_of_factors(self) -> str:
        if self.factors.shape != (len(self.values),) or self.factors.dtype.kind not in "biuf":
            return f"one number per sample, not {self.factors.dtype} {self.factors.shape}"
        fits = (np.isfinite(self.factors) & (self.factors >= 0)).all()
        return "" if fits else "finite and at least 0"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> Inputs:
        return Inputs(tuple(self.values.shape[1:]), self.vocabulary)

    def to_measure(self, most: int) -> tuple[Any, Any]:
        return self.values, self.labels

    def subset(self, numbers: Any) -> Arrays:
        factors = None if self.factors is None else self.factors[numbers]
        parts = {"values": self.values[numbers], "labels": self.labels[numbers]}
        return replace(self, **parts, factors=factors, place=None, as_in=None)

    def renumbered(self, numbers: Sequence[int], classes: tuple[str, ...]) -> Arrays:
        return replace(self, labels=np.array(numbers)[self.labels], classes=classes)

    def check(self, task: Any) -> int:
        return check_labels(self.labels, self.classes, task, self.source)

    def digest(self) -> str:
        digest = hashlib.sha256()
        for array in (self.values, self.labels):
            digest.update(f"{array.dtype.str} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def find_fault(self) -> str:
        for array in (self.values, self.labels):
            if (index := first_not_finite(array)) is not None:
                place = self.place(index) if self.place else f"{self.source} sample {index[0]}"
                return f"{place} is {array[index]:g}: inputs and labels must be finite numbers"
        return ""

    def reader(self) -> Callable[[Any], tuple[Any, Any]]:
        import tensorflow as tf

        with tf.device("cpu"):  # the whole set stays in host memory; batches go to the GPU
            values, labels = tf.constant(self.values), tf.constant(self.labels)
        return lambda numbers: (as_inputs(tf.gather(values, numbers)), tf.gather(labels, numbers))


def first_not_finite(array: Any) -> tuple[int, ...] | None:
    """The index of the first value that is NaN or infinite; None if there is none."""
    if array.dtype.kind != "f":
        return None
    flat = array.reshape(-1)
    for begin in range(0, len(flat), PIECE):
        finite = np.isfinite(flat[begin : begin + PIECE])
        if not finite.all():
            index = np.unravel_index(begin + int(finite.argmin()), array.shape)
            return tuple(int(number) for number in index)
    return None


def as_inputs(values: Any) -> Any:
    """Bytes become float32 in 0..1, whole numbers int64, all else float32."""
    import tensorflow as tf

    if values.dtype == tf.uint8:
        return tf.cast(values, tf.float32) / PIXEL
    return tf.cast(values, tf.int64 if values.dtype.is_integer else tf.float32)


def check_labels(labels: Any, classes: tuple[str, ...], task: Any, source: str) -> int:
    """The number of classes; DataError if a label does not fit the task."""
    labels = np.asarray(labels)
    if labels.ndim != task.label_rank or labels.dtype.kind not in "biuf":
        rows = "a row of 0 and 1 per sample, as data=numpy can have them"
        shape = "one number per sample" if task.label_rank == 1 else rows
        raise DataError(f"{source}: labels must be {shape}")
    low, high = float(labels.min()), float(labels.max())
    whole = labels.dtype.kind in "biu" or bool((labels == np.floor(labels)).all())
    count = len(classes) or (int(high) + 1 if whole and high >= 0 else 0)
    count = labels.shape[1] if task.label_rank == 2 else count
    if wrong := task.check_labels(low, high, whole, count):
        raise DataError(f"{source} has labels from {low:g} to {high:g}: {wrong}")
    return count
