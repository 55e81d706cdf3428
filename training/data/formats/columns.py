"""The columns of a table as numbers.

The name of an input shows how it is made, so that a model, or other data, needs nothing else to
read a table in the same way:

    age               a number
    rate in %         the number before the sign
    day in days       a date YYYY-MM-DD, as days since 1970
    member is true    1 for true, 0 for false
    colour=red        1 where colour is red, otherwise 0 (categories=onehot)
    size=L|M|S        0 for L, 1 for M, 2 for S (categories=index)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import numpy as np

from ...config import TrainConfig
from .. import DataError

MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "?")  # in lower case
MOST_CATEGORIES = 100  # of one column
FEW = 10  # categories: up to this number is never too many
ID = re.compile(r"(.*[ _-])?(id|ID|Id)|.*[a-z]I[dD]|uuid|UUID")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
DECIMAL = re.compile(r"[+-]?\d*,\d+")
DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}[./]\d{1,2}[./]\d{1,2}")
DAY = 86400.0


@dataclass(frozen=True)
class Column:
    """The texts of one column; `place(row)` names a value."""

    name: str
    texts: Sequence[str]
    place: Callable[[int], str]
    separator: str = ","

    @cached_property
    def plain(self) -> Any:
        """All values, float64 [rows], if they are numbers; otherwise None."""
        try:
            values = np.array(self.texts, np.float64)
        except ValueError:
            return None
        return None if np.isnan(values).any() else values

    @cached_property
    def missing(self) -> Any:
        """Which rows have no value, bool [rows]."""
        if self.plain is not None:
            return np.zeros(len(self.texts), bool)
        return np.array([is_missing(text) for text in self.texts])

    def values(self) -> list[str]:
        """The texts that are values."""
        return [text.strip() for text in self.texts if not is_missing(text)]


def is_missing(text: str) -> bool:
    """Whether a text stands for a value that is not there."""
    return text.strip().lower() in MISSING


def is_missing_label(text: str) -> bool:
    """The same for a label: `None` may be the name of a class."""
    return is_missing(text) and text.strip().lower() != "none"


def number(text: str) -> float | None:
    """A number as programs write it."""
    try:
        return float(text)
    except ValueError:
        return None


def percent(text: str) -> float | None:
    """The number before a percent sign."""
    return number(text[:-1].strip()) if text.endswith("%") else None


def days(text: str) -> float | None:
    """Days since 1970 of a date, with or without a time of day."""
    try:
        moment = datetime.fromisoformat(text) if re.match(r"\d{4}-\d\d-\d\d", text) else None
    except ValueError:
        return None
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() / DAY


def truth(text: str) -> float | None:
    """1 for true, 0 for false."""
    return {"true": 1.0, "false": 0.0}.get(text.lower())


KINDS: Mapping[str, tuple[Callable[[str], float | None], str]] = {
    "": (number, "a number"),
    " in %": (percent, "a number with %"),
    " in days": (days, "a date YYYY-MM-DD"),
    " is true": (truth, "true or false"),
}


def inputs_of(column: Column, config: TrainConfig) -> list[str]:
    """The names of the inputs that a column makes.

    Raises:
        DataError: it cannot be an input; the message has the line, and what to do.
    """
    if column.plain is not None:
        return [column.name]
    values = column.values()
    for ending, (read, _) in KINDS.items():
        if values and all(read(text) is not None for text in values):
            return [column.name + ending]
    if not values:
        raise DataError(
            f"{column.place(0)}: no row has a value: --set unused={column.name} leaves it out"
        )
    read, expected = max(
        KINDS.values(), key=lambda kind: sum(kind[0](t) is not None for t in values)
    )
    most = sum(read(text) is not None for text in values)
    if config.categories == "error" or 2 * most >= len(values):
        raise DataError(
            _not_a_number(column, read if most else number, expected if most else "a number")
        )
    return _categories(column, sorted(set(values)), config)


def _categories(column: Column, names: Sequence[str], config: TrainConfig) -> list[str]:
    if len(names) > min(MOST_CATEGORIES, max(FEW, len(column.texts) // 2)):
        raise DataError(
            f"{column.place(0)}: the column has {len(names)} different texts in "
            f"{len(column.texts)} rows, too many for categories: --set unused={column.name} "
            "leaves it out"
        )
    if config.categories == "onehot":
        return [f"{column.name}={name}" for name in names]
    if any("|" in name for name in names):
        raise DataError(f"{column.place(0)}: categories=index needs texts without |")
    return [f"{column.name}={'|'.join(names)}"]


def _not_a_number(column: Column, read: Callable[[str], float | None], expected: str) -> str:
    """The first value that is not like the others, and what to do."""
    row, text = next(
        (row, text.strip())
        for row, text in enumerate(column.texts)
        if not is_missing(text) and read(text.strip()) is None
    )
    begin = f"{column.place(row)}: {text!r} is not {expected}"
    path = column.place(row).rpartition(" line ")[0]
    if THOUSANDS.fullmatch(text):
        plain, point = text.replace(",", ""), text.replace(",", ".")
        also = (
            f" (or {point}, if the comma is a decimal one)"
            if text.count(",") == 1 and column.separator != ","
            else ""
        )
        return (
            f"{begin}: write {plain}{also}. {command(THOUSANDS_SED[column.separator == ','], path)}"
        )
    if DECIMAL.fullmatch(text):
        point = text.replace(",", ".")
        sed = command(DECIMAL_SED[column.separator == ","], path)
        return f"{begin}: write {point}, with a point. {sed}"
    if DATE.fullmatch(text):
        return f"{begin}: write dates as 2024-01-31. Day first: {command(DATE_SED, path)}"
    categories = f"--set categories=onehot or categories=index, or --set unused={column.name}"
    return f"{begin}: {categories}"


# Commands that convert a whole file. In a file with commas between columns, numbers with a comma
# are in quotes.
THOUSANDS_SED = (
    r"sed -E -e :a -e 's/([0-9]),([0-9]{3})([^0-9]|$)/\1\2\3/' -e ta",
    r"""sed -E -e :a -e 's/"([-+]?[0-9]+),([0-9]{3}[,."])/"\1\2/' -e ta""",
)
DECIMAL_SED = (
    r"sed -E 's/([0-9]),([0-9])/\1.\2/g'",
    r"""sed -E 's/"([-+]?[0-9]*),([0-9]+)"/\1.\2/g'""",
)
DATE_SED = r"sed -E 's#([0-9]{2})[./-]([0-9]{2})[./-]([0-9]{4})#\3-\2-\1#g'"


def command(sed: str, path: str) -> str:
    """A command that converts a file."""
    return f"Convert it: {sed} {path} > NEW.csv"


def is_id(column: Column) -> bool:
    """Whether a column numbers or names the rows: its name shows it, and no two values are the
    same."""
    if not ID.fullmatch(column.name):
        return False
    values = column.values()
    return len(set(values)) == len(column.texts) > 1 and all(
        re.fullmatch(r"[+-]?\d+(\.0*)?", text) or number(text) is None for text in values
    )


def source_of(name: str, columns: Mapping[str, Column]) -> tuple[str, str] | None:
    """The column that an input is made of, and how: an ending of KINDS, or `=` and categories;
    None if there is no such column."""
    for ending in KINDS:
        if (
            name.endswith(ending)
            and (column := name.removesuffix(ending) if ending else name) in columns
        ):
            return column, ending
    for match in re.finditer("=", name):
        if name[: match.start()] in columns:
            return name[: match.start()], name[match.start() :]
    return None


def as_numbers(column: Column, how: str) -> Any:
    """The values of one input, float32 [rows]; NaN where they are missing.

    Raises:
        DataError: a value is of another kind.
    """
    if how.startswith("=") and "|" not in how:  # a missing value is of no category
        return np.array([float(text.strip() == how[1:]) for text in column.texts], np.float32)
    read: Callable[[str], float | None]
    if how.startswith("="):
        numbers = {name: float(k) for k, name in enumerate(how[1:].split("|"))}
        read, expected = numbers.get, f"one of {how[1:].replace('|', ', ')}"
    else:
        read, expected = KINDS[how]
    values = column.plain if read is number else None
    if values is None:
        values = np.full(len(column.texts), np.nan)
        for row, text in enumerate(column.texts):
            if not is_missing(text):
                value = read(text.strip())
                if value is None:
                    raise DataError(_not_a_number(column, read, expected))
                values[row] = value
    with np.errstate(over="ignore"):  # what float32 cannot hold is found as infinite
        return values.astype(np.float32)


def first_missing(columns: Sequence[Column]) -> str:
    """What to say about missing values: the first one, and how many there are; empty if none."""
    counts = Counter({column.name: int(column.missing.sum()) for column in columns})
    counts = +counts
    if not counts:
        return ""
    column = next(column for column in columns if column.name in counts)
    row = int(column.missing.argmax())
    text = column.texts[row].strip()
    value = f"is {text!r}, a missing value" if text else "is empty"
    each = ", ".join(f"{name} {count}" for name, count in counts.most_common(5))
    return (
        f"{column.place(row)} {value} ({each} of {len(column.texts)} rows): every input must be a "
        "number. --set missing=mean or missing=drop, or --set unused=COLUMN"
    )
