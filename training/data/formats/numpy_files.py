"""`x.npy` and `y.npy`, or one `.npz` with `x` and `y`, or with `x_train`, `y_train`, `x_test`,
`y_test`. Labels are numbers or rows of 0 and 1.

Validation data may be x_validation, x_val or x_valid.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...tasks import task_of
from .. import DataError
from ..arrays import Arrays
from .folders import not_used, splits_in


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The arrays of a folder, or of one .npz file."""
    if not folder.is_dir():
        return from_archive(folder, config)
    rest = set(folder.iterdir())
    if (folder / "x.npy").is_file():
        pair = [folder / "x.npy", folder / "y.npy"]
        train = samples(array(pair[0]), array(pair[1]), config, folder, ("x.npy", "y.npy"))
        third = folder / f"{config.sample_weights}.npy"
        if config.sample_weights and third.is_file():
            pair, train = [*pair, third], replace(train, factors=array(third))
        return {"train": replace(train, ignored=not_used(rest - set(pair), folder))}
    files = sorted(folder.glob("*.npz"))
    if len(files) != 1:
        raise DataError(f"{folder} needs x.npy and y.npy, or one .npz file, and has {len(files)}")
    splits = from_archive(files[0], config)
    ignored = (*not_used(rest - {files[0]}, folder), *splits["train"].ignored)
    return {**splits, "train": replace(splits["train"], ignored=ignored)}


def array(path: Path) -> Any:
    """One .npy file; objects, which would run code, are refused."""
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def from_archive(path: Path, config: TrainConfig) -> dict[str, Any]:
    """The splits of one .npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    pairs = pairs_in(arrays)
    if "train" not in pairs:
        raise DataError(f"{path} has {', '.join(arrays)}: it needs x and y, or x_train and y_train")
    thirds = {
        split: config.sample_weights + pair[0][1:] if config.sample_weights else ""
        for split, pair in pairs.items()
    }
    used = {*(name for pair in pairs.values() for name in pair), *thirds.values()}
    ignored = tuple(f"the array {name} of {path.name}" for name in arrays if name not in used)
    splits = {
        split: replace(
            samples(arrays[pair[0]], arrays[pair[1]], config, path, pair),
            factors=arrays.get(thirds[split]),
        )
        for split, pair in pairs.items()
    }
    return {**splits, "train": replace(splits["train"], ignored=ignored)}


def pairs_in(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The names of the inputs and the labels of each split."""
    there = set(names)
    if {"x", "y"} <= there:
        return {"train": ("x", "y")}
    ends = [name[2:] for name in there if name.startswith("x_") and f"y_{name[2:]}" in there]
    return {split: (f"x_{end}", f"y_{end}") for split, end in splits_in(ends).items()}


def samples(
    values: Any, labels: Any, config: TrainConfig, source: Path, names: tuple[str, str]
) -> Arrays:
    """Inputs as they are; images of [samples, height, width] get one channel. `names` are those of
    the two arrays."""
    if values.dtype.kind not in "uif" or values.ndim < 2:
        raise DataError(f"{source}: x must be numbers [samples, ...], not {values.dtype}")
    if labels.dtype.kind not in "biuf":
        raise DataError(f"{source}: y must be numbers, not {labels.dtype}")
    if values.ndim == 3 and values.dtype == np.uint8:
        values = values[..., None]
    if values.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what float32 cannot hold is found as infinite
            values = values.astype(np.float32)

    def place(index: tuple[int, ...]) -> str:
        name = names[0] if len(index) > 1 else names[1]
        return f"{source}: {name}[{', '.join(map(str, index))}]"

    shaped = shaped_labels(labels, config, source)
    return Arrays(values, as_labels(shaped, config), source=str(source), place=place)


def shaped_labels(labels: Any, config: TrainConfig, source: Path) -> Any:
    """One number per sample, or a row if the task has several labels per sample; for other tasks
    one-hot labels [samples, classes] become classes."""
    if task_of(config.task).label_rank == 2:
        if labels.ndim != 2:
            raise DataError(
                f"{source}: labels y have the shape {labels.shape}, not [samples, classes]"
            )
        return labels
    if labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] == 1):
        return labels.reshape(-1)
    if task_of(config.task).metric == "accuracy" and is_one_hot(labels):
        return labels.argmax(axis=1)
    raise DataError(
        f"{source}: y has the shape {labels.shape}, and {config.task} takes one number per sample"
        ", or for classes one-hot rows [samples, classes]"
    )


def is_one_hot(labels: Any) -> bool:
    """Whether each row has a single 1 and else 0."""
    return (
        labels.ndim == 2
        and bool(((labels == 0) | (labels == 1)).all())
        and bool((labels.sum(axis=1) == 1).all())
    )


def as_labels(labels: Any, config: TrainConfig) -> Any:
    """Labels in the type of the task; values that it cannot hold are kept, so that the checks name
    them."""
    with np.errstate(invalid="ignore", over="ignore"):
        cast = labels.astype(task_of(config.task).label_type)
    return cast if (cast == labels).all() or cast.dtype.kind == "f" else labels
