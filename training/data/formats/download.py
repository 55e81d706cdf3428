"""Data sets that Keras can fetch, if there is a network and no folder is given."""

from __future__ import annotations

import fcntl
import importlib
import os
from pathlib import Path
from typing import Any

from ...config import TrainConfig
from .. import DataError
from ..arrays import Arrays


def fetched(name: str, **options: Any) -> Any:
    """What keras.datasets has under this name; DataError if it cannot be fetched."""
    module = importlib.import_module(f"keras.datasets.{name}")
    lock = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser() / "railhead.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # ranks of one host share this folder: one downloads
        try:
            return module.load_data(**options)
        except Exception as error:  # whatever its download raises
            raise DataError(
                f"{name} could not be fetched ({error}): give its folder, --data train=FOLDER"
            ) from None


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Images and labels of the data set of this name as training and test data."""
    name = config.data.replace("-", "_")
    (values, labels), (test_values, test_labels) = fetched(name)
    return {
        "train": pictures(values, labels, name),
        "test": pictures(test_values, test_labels, name),
    }


def pictures(values: Any, labels: Any, name: str) -> Arrays:
    """Images with one channel at least; Keras gives CIFAR's labels as a column."""
    values = values[..., None] if values.ndim == 3 else values
    return Arrays(values, labels.reshape(-1).astype("int64"), source=name)
