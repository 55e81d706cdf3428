"""CIFAR-10, the binary version: `data_batch_1.bin` to `data_batch_5.bin`, and `test_batch.bin`.

Each record is a label and 3072 pixels: 32 x 32 red, then green, then blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from .. import DataError
from ..arrays import Arrays
from .download import fetch as fetch
from .folders import not_used

RECORD = 1 + 3 * 32 * 32
NAMES = "airplane automobile bird cat deer dog frog horse ship truck"
INNER = "cifar-10-batches-bin"


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The batches of a folder, or of cifar-10-batches-bin in it."""
    folder = folder / INNER if (folder / INNER).is_dir() else folder
    train, test = sorted(folder.glob("data_batch_*.bin")), sorted(folder.glob("test_batch.bin"))
    if not train and not test:
        raise DataError(f"{folder} has no data_batch_1.bin")
    rest = [item for item in folder.iterdir() if item not in [*train, *test]]
    first = replace(batch(train or test, folder), ignored=not_used(rest, folder))
    splits = {"train": first}
    return {**splits, "test": batch(test, folder)} if train and test else splits


def batch(files: Sequence[Path], folder: Path) -> Arrays:
    """All records of some files: images [samples, 32, 32, 3]."""
    table = np.concatenate([records(file) for file in files])
    images = table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    labels = table[:, 0].astype(np.int64)
    return Arrays(np.ascontiguousarray(images), labels, tuple(NAMES.split()), source=str(folder))


def records(file: Path) -> Any:
    """One file as bytes [records, 3073]."""
    data = np.fromfile(file, np.uint8)
    if not len(data) or len(data) % RECORD:
        raise DataError(f"{file} has {len(data)} bytes: not whole records of {RECORD}")
    return data.reshape(-1, RECORD)
