"""`train.csv` with a header, optionally `validation.csv`, `test.csv`, plain or `.gz`. The setting
`label` names the column of labels; [other columns](#tables) become numbers.

FOLDER/train.csv, validation.csv, test.csv      or a folder with one .csv, or a file
FOLDER/a_train.csv, a_test.csv

UTF-8, separated by `,`, `;` or tabs, whichever makes the labels a column.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...tasks import task_of
from .. import SPLITS, DataError
from ..arrays import Arrays
from .columns import (
    Column,
    as_numbers,
    first_missing,
    inputs_of,
    is_id,
    is_missing_label,
    number,
    source_of,
)
from .folders import SPLIT_OF, decoded, not_used
from .labels import numbered

SEPARATORS = ",;\t"
INDEX = re.compile(r"(Unnamed: \d+)?")  # columns that pandas writes for the numbers of rows
SHOWN = 20  # columns in a message
ENDING = re.compile(r"\.(csv|tsv)(\.gz)?$")
GZIP = b"\x1f\x8b"
# First bytes of tables in other formats -> what they are, their reader in pandas, what it needs.
FORMATS = {
    b"PAR1": ("Parquet", "read_parquet", "pyarrow"),
    b"PK\x03\x04": ("an Excel file", "read_excel", "openpyxl"),
    b"ARROW1": ("Feather", "read_feather", "pyarrow"),
}
OTHER = (".parquet", ".pq", ".xlsx", ".feather")


@dataclass(frozen=True)
class Table:
    """A file as texts: columns that may be inputs, labels, and factors of the loss or None. `lines`
    are those of the file, from 1; `unused` are the columns that are not inputs, in words."""

    path: Path
    columns: dict[str, Column]
    label: str
    labels: list[str]
    factors: Any
    lines: list[int]
    unused: tuple[str, ...]

    def without(self, rows: Any) -> Table:
        """The table without some rows, bool [rows]."""
        kept = np.flatnonzero(~rows).tolist()
        lines = [self.lines[row] for row in kept]
        columns = {
            name: Column(
                name,
                [column.texts[row] for row in kept],
                placed(self.path, lines, name),
                column.separator,
            )
            for name, column in self.columns.items()
        }
        factors = None if self.factors is None else self.factors[kept]
        return replace(
            self,
            columns=columns,
            labels=[self.labels[row] for row in kept],
            factors=factors,
            lines=lines,
        )


def placed(path: Path, lines: list[int], name: str) -> Callable[[int], str]:
    """A function that names a value of a column by its row."""
    return lambda row: f"{path} line {lines[row]}, column {name!r}"


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The files of a folder, or one file. All have the inputs of the first one, `train`."""
    files = files_of(folder)
    rest = set(folder.iterdir()) - set(files.values()) if folder.is_dir() else set()
    ignored = not_used(rest, folder)
    splits: dict[str, Any] = {}
    for name, path in files.items():
        first = next(iter(splits.values()), None)
        inputs = (first.columns, first.fill) if first else ()
        splits[name] = samples(table(path, config), config, *inputs)
    name = next(iter(splits))
    return {**splits, name: replace(splits[name], ignored=(*ignored, *splits[name].ignored))}


def files_of(folder: Path) -> dict[str, Path]:
    """The file of each split, `train` first. A file of a split has its name, or ends with it, as
    a_train.csv."""
    if not folder.is_dir():
        return {"train": folder}
    paths = sorted(path for path in folder.iterdir() if ENDING.search(path.name.lower()))
    stems = {path: ENDING.sub("", path.name.lower()) for path in paths}
    for word_of in (SPLIT_OF.get, split_word):
        by_split: dict[str, list[Path]] = {}
        for path in paths:
            if split := word_of(stems[path]):
                by_split.setdefault(split, []).append(path)
        for of_split in by_split.values():
            if len(of_split) > 1:
                names = ", ".join(path.name for path in of_split)
                raise DataError(f"{folder} has several files of one split: {names}")
        if by_split:
            return {name: by_split[name][0] for name in SPLITS if name in by_split}
    if len(paths) != 1:
        other = sorted(path for path in folder.iterdir() if path.suffix.lower() in OTHER)
        if not paths and other:
            read_bytes(other[0])  # its error has the command that converts it
        raise DataError(f"{folder} needs train.csv, or one .csv file, and has {len(paths)}")
    return {"train": paths[0]}


def split_word(stem: str) -> str | None:
    """The split at the end of a name, such as `train` in `titanic_train`."""
    return SPLIT_OF.get(re.split(r"[-_. ]", stem)[-1])


def read_bytes(path: Path) -> bytes:
    """A file, unpacked if it is gzip.

    Raises:
        DataError: it cannot be read, or is a table of another format; the message has the command
            that converts it.
    """
    try:
        content = path.read_bytes()
        if content.startswith(GZIP):
            return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    for magic, (name, reader, needs) in FORMATS.items():
        if content.startswith(magic):
            code = f"import pandas; pandas.{reader}({str(path)!r}).to_csv('train.csv', index=False)"
            raise DataError(
                f'{path} is {name}. Convert it: uv run --with pandas,{needs} python -c "{code}"'
            )
    return content


def table(path: Path, config: TrainConfig) -> Table:
    """Read one file; DataError names the line of what is wrong."""
    text = decoded(read_bytes(path), path)
    header, separator = header_of(text, path, config.label)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    column = header.index(config.label)
    index = [i for i, name in enumerate(header) if i != column and INDEX.fullmatch(name)]
    lines: list[int] = []
    read_rows = []
    for row in each_row(rows, len(header), path):
        read_rows.append(row)
        lines.append(rows.line_num)
    if not read_rows:
        raise DataError(f"{path} has no sample")
    texts = list(zip(*read_rows, strict=True))
    names = [header[i] for i in range(len(header)) if i != column and i not in index]
    if double := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path} has {names.count(double[0])} columns {double[0]!r}")
    columns = {
        name: Column(name, texts[header.index(name)], placed(path, lines, name), separator)
        for name in names
    }
    weights = columns.pop(config.sample_weights, None)
    factors = None if weights is None else as_numbers(weights, "")
    left_out = [name for name in names if name in config.unused_columns]
    ids = [name for name, column in columns.items() if name not in left_out and is_id(column)]
    unused = (
        *(f"{path.name} {unnamed(header[i], i)} (an index)" for i in index),
        *(f"{path.name} column {name!r} (an id: each row has another)" for name in ids),
        *(f"{path.name} column {name!r} (by unused)" for name in left_out),
    )
    if not set(columns) - {*ids, *left_out}:
        raise DataError(
            f"{path} has no column beside {config.label!r} that could be an input"
            + (f": not used are {', '.join(unused)}" if unused else "")
        )
    return Table(path, columns, config.label, list(texts[column]), factors, lines, unused)


def samples(
    whole: Table, config: TrainConfig, columns: Sequence[str] = (), fill: Sequence[float] = ()
) -> Arrays:
    """The table as numbers. `columns` and `fill`: the inputs of other data, and what stands for
    their missing values; by default those of the table itself.

    Raises:
        DataError: a value is missing or of another kind, or a column is not in the table.
    """
    used = usable(whole, config)
    if columns:
        used = {name: whole.columns[name] for name, _ in sources_of(whole, used, columns)}
    table = without_missing(whole, used, config)
    used = {name: table.columns[name] for name in used}
    columns = columns or [name for column in used.values() for name in inputs_of(column, config)]
    sources = sources_of(table, used, columns)
    check_categories(sources, used, config)
    values = np.stack([as_numbers(used[source], how) for source, how in sources], axis=1)
    if config.missing == "mean":
        fill = fill or means(values)
        values = np.where(np.isnan(values), np.array(fill, np.float32), values)
    labels, classes = labels_of(table, config)
    label_at = placed(table.path, table.lines, table.label)
    inputs_at = [used[source].place for source, _ in sources]
    return Arrays(
        values,
        labels,
        classes,
        source=str(table.path),
        columns=tuple(columns),
        fill=tuple(fill) if config.missing == "mean" else (),
        ignored=(*table.unused, *dropped(whole, table)),
        place=lambda index: inputs_at[index[1]](index[0]) if len(index) > 1 else label_at(index[0]),
        factors=table.factors,
        as_in=lambda columns, fill: samples(whole, config, columns, fill),
    )


def means(values: Any) -> tuple[float, ...]:
    """The mean of what is finite in each column [rows, columns]; 0 without any."""
    known = np.isfinite(values)
    sums = np.where(known, values, 0.0).sum(axis=0, dtype=np.float64)
    return tuple((sums / np.maximum(known.sum(axis=0), 1)).tolist())


def dropped(whole: Table, table: Table) -> list[str]:
    """How many rows are left out, in words."""
    rows, left_out = len(whole.labels), len(whole.labels) - len(table.labels)
    return [f"{left_out} of {rows} rows of {whole.path.name} (a missing value)"] if left_out else []


def check_categories(
    sources: Sequence[tuple[str, str]], used: Mapping[str, Column], config: TrainConfig
) -> None:
    """DataError for a text that the inputs of other data do not have, with missing=error."""
    known: dict[str, set[str]] = {}
    for source, how in sources:
        if how.startswith("=") and "|" not in how:
            known.setdefault(source, set()).add(how[1:])
    for source, names in known.items():
        for row, text in enumerate(used[source].texts):
            if config.missing == "error" and text.strip() not in names:
                theirs = ", ".join(sorted(names)[:SHOWN])
                raise DataError(
                    f"{used[source].place(row)}: {text!r} is none of the training data's {theirs}: "
                    "--set missing=mean reads it as none of them"
                )


def usable(table: Table, config: TrainConfig) -> dict[str, Column]:
    """The columns that are inputs."""
    return {
        name: column
        for name, column in table.columns.items()
        if name not in config.unused_columns and not is_id(column)
    }


def sources_of(table: Table, used: Iterable[str], names: Iterable[str]) -> list[tuple[str, str]]:
    """For each input its column, and how it is made of it."""
    by_name = {name: source_of(name, table.columns) for name in names}
    sources = [source for source in by_name.values() if source]
    if len(sources) < len(by_name) or set(used) - {source for source, _ in sources}:
        ours, theirs = ", ".join(used), ", ".join(by_name)
        raise DataError(f"{table.path} has the columns {ours}, but its inputs must be {theirs}")
    return sources


def without_missing(table: Table, used: Mapping[str, Column], config: TrainConfig) -> Table:
    """The table without rows that lack a value, with missing=drop; DataError for the first missing
    value with missing=error, and for a missing label."""
    no_label = np.array([is_missing_label(text) for text in table.labels])
    if config.missing == "drop":
        rows = np.any([column.missing for column in used.values()], axis=0) | no_label
        if rows.all():
            raise DataError(f"{table.path}: each row lacks a value, so missing=drop leaves none")
        return table.without(rows) if rows.any() else table
    if no_label.any():
        row = int(no_label.argmax())
        text = table.labels[row].strip()
        value = f"{text!r}, a missing value" if text else "empty"
        raise DataError(
            f"{table.path} line {table.lines[row]}: the label is {value} "
            f"({no_label.sum()} of {len(table.labels)} rows): --set missing=drop leaves them out"
        )
    if config.missing == "error" and (fault := first_missing([*used.values()])):
        raise DataError(fault)
    return table


def labels_of(table: Table, config: TrainConfig) -> tuple[Any, tuple[str, ...]]:
    """Labels as classes in the order of their names, or as numbers for a regression."""
    if task_of(config.task).metric == "accuracy":
        return numbered(table.labels)
    return numbers(table), ()


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


def numbers(table: Table) -> Any:
    """Labels float32 [samples]."""
    for line, text in zip(table.lines, table.labels, strict=True):
        if number(text.strip()) is None:
            raise DataError(
                f"{table.path} line {line}: the label {text!r} is not a number, "
                "as regression needs it"
            )
    return np.array(table.labels, np.float32)
