"""CSV files: a header, one sample per line, one column of labels, all other columns numbers.

FOLDER/train.csv, validation.csv, test.csv      or a folder with one .csv, or a file
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from training.config import TrainConfig
from training.data import SPLITS, DataError
from training.data.arrays import Arrays
from training.tasks import task_of


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The files of a folder, or one file."""
    named = {name: folder / f"{name}.csv" for name in SPLITS}
    files = {name: path for name, path in named.items() if path.is_file()}
    if not files:
        found = sorted(folder.glob("*.csv")) if folder.is_dir() else [folder]
        if len(found) != 1:
            raise DataError(f"{folder} needs train.csv, or one .csv file")
        files = {"train": found[0]}
    tables = {name: table(path, config) for name, path in files.items()}
    if task_of(config.task).metric != "accuracy":
        return {name: numbers(*found) for name, found in tables.items()}
    names = tuple(sorted({text for _, texts, _ in tables.values() for text in texts}, key=by_value))
    return {name: classes(*found, names) for name, found in tables.items()}


def fetch(config: TrainConfig) -> dict[str, Any]:
    """CSV files are always given."""
    raise DataError("data=csv needs a folder: --data train=FOLDER")


def table(path: Path, config: TrainConfig) -> tuple[Any, list[str], Path]:
    """Inputs float32 [samples, columns], the labels as text, and the file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        if config.label not in header:
            raise DataError(f"{path} has no column {config.label!r}: --set label=COLUMN")
        column = header.index(config.label)
        inputs, labels = [], []
        for line, row in enumerate(rows, 2):
            if len(row) != len(header):
                raise DataError(f"{path} line {line} has {len(row)} values, not {len(header)}")
            labels.append(row.pop(column))
            inputs.append(row)
    if not inputs:
        raise DataError(f"{path} has no sample")
    try:
        return np.array(inputs, np.float32), labels, path
    except ValueError:
        raise DataError(first_fault(path, inputs)) from None


def first_fault(path: Path, inputs: list[list[str]]) -> str:
    """Which value is no number."""
    for line, row in enumerate(inputs, 2):
        for value in row:
            try:
                float(value)
            except ValueError:
                return f"{path} line {line}: {value!r} is not a number"
    return f"{path} cannot be read"


def numbers(inputs: Any, labels: list[str], path: Path) -> Arrays:
    """Labels as numbers, for regression."""
    try:
        return Arrays(inputs, np.array(labels, np.float32), source=str(path))
    except ValueError:
        raise DataError(f"{path}: labels must be numbers for regression") from None


def classes(inputs: Any, labels: list[str], path: Path, names: tuple[str, ...]) -> Arrays:
    """Labels as classes: their texts, in order."""
    known = {name: number for number, name in enumerate(names)}
    return Arrays(inputs, np.array([known[text] for text in labels]), names, source=str(path))


def by_value(text: str) -> tuple[float, str]:
    """Numbers in their order, then texts."""
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
