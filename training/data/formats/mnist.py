"""IDX files, plain or `.gz`: `train-images...`, `train-labels...`; test data in `t10k-...`.

The format: two zero bytes, a type, the number of dimensions, their sizes, the bytes.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from .. import DataError
from ..arrays import Arrays
from .download import fetch as fetch
from .folders import not_used

UNSIGNED_BYTE = 8
FILES = {"train": "train", "test": "t10k"}


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The splits of a folder; DataError if there is none."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of IDX files")
    splits, rest = {}, set(folder.iterdir())
    for split, prefix in FILES.items():
        images, labels = find(folder, f"{prefix}-images"), find(folder, f"{prefix}-labels")
        if images and labels:
            splits[split] = samples(images, labels)
            rest -= {images, labels}
    if not splits:
        raise DataError(f"{folder} has no train-images-idx3-ubyte and train-labels-idx1-ubyte")
    if "train" not in splits:  # a folder given as test data
        splits["train"] = splits["test"]
    return {**splits, "train": replace(splits["train"], ignored=not_used(rest, folder))}


def find(folder: Path, prefix: str) -> Path | None:
    """The file of that prefix; the plain one before the .gz."""
    return next(iter(sorted(folder.glob(f"{prefix}*"))), None)


def samples(images: Path, labels: Path) -> Arrays:
    """Images [samples, height, width, 1] with their labels."""
    values, numbers = array(images), array(labels)
    if values.ndim != 3 or numbers.ndim != 1:
        raise DataError(f"{images} must have 3 dimensions and {labels} 1")
    return Arrays(values[..., None], numbers.astype(np.int64), source=str(images))


def array(path: Path) -> Any:
    """The array of one IDX file of bytes; DataError for any other file."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTE:
        raise DataError(f"{path} is not an IDX file of bytes")
    header = 4 + 4 * data[3]
    if len(data) < header:
        raise DataError(f"{path} ends inside its header")
    sizes = struct.unpack(f">{data[3]}I", data[4:header])
    if len(data) - header != math.prod(sizes):
        raise DataError(f"{path} has {len(data) - header} bytes of data, its header says {sizes}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(sizes)
