"""`train.csv` with a header, optionally `validation.csv`, `test.csv`. The setting `label` names the
column of labels; all other columns are numbers.

FOLDER/train.csv, validation.csv, test.csv      or a folder with one .csv, or a file

UTF-8, separated by `,`, `;` or tabs: by the one with which the labels are a column.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...tasks import task_of
from .. import DataError
from ..arrays import Arrays
from .folders import not_used, read_text, splits_in
from .labels import numbered

SEPARATORS = ",;\t"
INDEX = re.compile(r"(Unnamed: \d+)?")  # columns that pandas writes for the numbers of rows
SHOWN = 20  # columns in a message


@dataclass(frozen=True)
class Table:
    """The samples of a file: inputs float32 [samples, columns] and labels as texts. `lines` are
    those of the file, from 1; `index` the columns that are not used, in words."""

    path: Path
    columns: tuple[str, ...]
    inputs: Any
    label: str
    labels: list[str]
    lines: Any
    index: tuple[str, ...]

    def place(self, where: tuple[int, ...]) -> str:
        """The line and the column of an input [sample, column], or of a label [sample]."""
        name = self.columns[where[1]] if len(where) > 1 else self.label
        return f"{self.path} line {self.lines[where[0]]}, column {name!r}"


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The files of a folder, or one file."""
    files = files_of(folder)
    rest = set(folder.iterdir()) - set(files.values()) if folder.is_dir() else set()
    ignored = not_used(rest, folder)
    return {
        name: samples(table(path, config), config, ignored if name == "train" else ())
        for name, path in files.items()
    }


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Refused: CSV files need a folder."""
    raise DataError("data=csv needs a folder: --data train=FOLDER")


def files_of(folder: Path) -> dict[str, Path]:
    """The file of each split."""
    if not folder.is_dir():
        return {"train": folder}
    paths = sorted(folder.glob("*.csv"))
    named = splits_in(path.stem for path in paths)
    if not named and len(paths) != 1:
        raise DataError(f"{folder} needs train.csv, or one .csv file, and has {len(paths)}")
    return {name: folder / f"{stem}.csv" for name, stem in named.items()} or {"train": paths[0]}


def table(path: Path, config: TrainConfig) -> Table:
    """Read one file; DataError names the line of what is wrong."""
    text = read_text(path)
    header, separator = header_of(text, path, config.label)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    column = header.index(config.label)
    index = [i for i, name in enumerate(header) if i != column and INDEX.fullmatch(name)]
    inputs_at = [i for i in range(len(header)) if i != column and i not in index]
    if not inputs_at:
        raise DataError(f"{path} has no column beside {config.label!r} that could be an input")
    labels, inputs, lines = [], [], []
    for row in each_row(rows, len(header), path):
        if not row[column].strip():
            raise DataError(f"{path} line {rows.line_num}: the label is empty")
        labels.append(row[column])
        inputs.append([row[i] for i in inputs_at])
        lines.append(rows.line_num)
    if not inputs:
        raise DataError(f"{path} has no sample")
    columns = tuple(header[i] for i in inputs_at)
    unused = tuple(f"{path.name} {unnamed(header[i], i)} (an index)" for i in index)
    try:
        values = np.array(inputs, np.float32)
    except ValueError:
        raise DataError(first_fault(path, columns, inputs, lines)) from None
    return Table(path, columns, values, config.label, labels, np.array(lines), unused)


def header_of(text: str, path: Path, label: str) -> tuple[list[str], str]:
    """The names of the columns, and the character between them."""
    first = text[: 1 << 20]
    headers = {
        separator: [
            name.strip() for name in next(csv.reader(io.StringIO(first), delimiter=separator), [])
        ]
        for separator in SEPARATORS
    }
    for separator, header in headers.items():
        if (count := header.count(label)) > 1:
            raise DataError(f"{path} has {count} columns {label!r}: the label must be one column")
        if count:
            return header, separator
    names = max(headers.values(), key=len)
    columns = ", ".join(names[:SHOWN])
    raise DataError(f"{path} has no column {label!r}: --set label=COLUMN. Its columns: {columns}")


def each_row(rows: Any, columns: int, path: Path) -> Any:
    """The rows after the header that are not empty; DataError for a row of another length."""
    try:
        next(rows)
        for row in rows:
            if row and len(row) != columns:
                raise DataError(f"{path} line {rows.line_num} has {len(row)} values, not {columns}")
            if row:
                yield row
    except csv.Error as error:
        raise DataError(f"{path} line {rows.line_num} cannot be read: {error}") from None


def unnamed(name: str, number: int) -> str:
    """A column that has no name, for a message."""
    return f"column {name!r}" if name else f"column {number + 1} without a name"


def first_fault(
    path: Path, columns: tuple[str, ...], inputs: list[list[str]], lines: list[int]
) -> str:
    """Which value is not a number."""
    for line, row in zip(lines, inputs, strict=True):
        for name, value in zip(columns, row, strict=True):
            place = f"{path} line {line}, column {name!r}"
            if not value.strip():
                return f"{place} is empty: every input must be a number"
            if not is_number(value):
                point = value.replace(",", ".")
                hint = f": write {point}, with a point" if is_number(point) else ""
                return f"{place}: {value!r} is not a number{hint}"
    return f"{path} cannot be read"


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def samples(table: Table, config: TrainConfig, ignored: tuple[str, ...]) -> Arrays:
    """Labels become classes in the order of their names, or numbers for a regression."""
    table, factors = without_factors(table, config.sample_weights)
    names: tuple[str, ...] = ()
    if task_of(config.task).metric == "accuracy":
        labels, names = numbered(table.labels)
    else:
        labels = numbers(table)
    return Arrays(
        table.inputs,
        labels,
        names,
        source=str(table.path),
        columns=table.columns,
        ignored=(*ignored, *table.index),
        place=table.place,
        factors=factors,
    )


def without_factors(table: Table, column: str) -> tuple[Table, Any]:
    """A table without the column of `sample_weights`, and its values; None where it has none."""
    if column not in table.columns:
        return table, None
    at = table.columns.index(column)
    columns = table.columns[:at] + table.columns[at + 1 :]
    rest = replace(table, columns=columns, inputs=np.delete(table.inputs, at, axis=1))
    return rest, table.inputs[:, at]


def numbers(table: Table) -> Any:
    """Labels float32 [samples]."""
    for line, text in zip(table.lines, table.labels, strict=True):
        if not is_number(text):
            raise DataError(
                f"{table.path} line {line}: the label {text!r} is not a number, "
                "as regression needs it"
            )
    return np.array(table.labels, np.float32)
