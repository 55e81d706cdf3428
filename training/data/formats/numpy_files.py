"""NumPy files: data.npz with x and y (or x_train, y_train, x_test, y_test), or x.npy and y.npy."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from training.config import TrainConfig
from training.data import DataError
from training.data.arrays import Arrays
from training.tasks import task_of


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The arrays of a folder, or of one .npz file."""
    files = sorted(folder.glob("*.npz")) if folder.is_dir() else [folder]
    if folder.is_dir() and (folder / "x.npy").is_file():
        pair = {name: array(folder / f"{name}.npy") for name in ("x", "y")}
        return {"train": samples(pair["x"], pair["y"], config, folder)}
    if len(files) != 1:
        raise DataError(f"{folder} needs x.npy and y.npy, or one .npz file")
    return from_archive(files[0], config)


def fetch(config: TrainConfig) -> dict[str, Any]:
    """NumPy files are always given."""
    raise DataError("data=numpy needs a folder: --data train=FOLDER")


def array(path: Path) -> Any:
    """One .npy file; objects, which would run code, are refused."""
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def from_archive(path: Path, config: TrainConfig) -> dict[str, Any]:
    """The splits of one .npz file."""
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if {"x", "y"} <= arrays.keys():
        return {"train": samples(arrays["x"], arrays["y"], config, path)}
    splits = {
        name: samples(arrays[f"x_{name}"], arrays[f"y_{name}"], config, path)
        for name in ("train", "test")
        if {f"x_{name}", f"y_{name}"} <= arrays.keys()
    }
    if "train" not in splits:
        raise DataError(f"{path} has {', '.join(arrays)}: it needs x and y, or x_train and y_train")
    return splits


def samples(values: Any, labels: Any, config: TrainConfig, source: Path) -> Arrays:
    """Inputs as they are; images of [samples, height, width] get one channel."""
    if values.dtype.kind not in "uif" or values.ndim < 2:
        raise DataError(f"{source}: x must be numbers [samples, ...], not {values.dtype}")
    if labels.dtype.kind not in "biuf":
        raise DataError(f"{source}: y must be numbers, not {labels.dtype}")
    if values.ndim == 3 and values.dtype == np.uint8:
        values = values[..., None]
    if values.dtype != np.uint8:
        values = values.astype(np.float32)
    return Arrays(values, as_labels(labels.reshape(-1), config, source), source=str(source))


def as_labels(labels: Any, config: TrainConfig, source: Path) -> Any:
    """Labels in the type of the task; fractions are kept for the check to name them."""
    wanted = labels.astype(task_of(config.task).label_type)
    return wanted if (wanted == labels).all() or wanted.dtype.kind == "f" else labels
