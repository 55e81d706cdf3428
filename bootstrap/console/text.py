"""Text for people: progress, durations, sizes, bars, and safe text from hosts. Pure.

Text from hosts is cleaned before it is printed: an escape sequence in a script's output must not
reach the user's terminal.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railhead.documents.runs.records import Record

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # moves, colours
    r"|(?:\x1b[\]PX^_]|\x9d)[^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboards, links
    r"|\x1b[ -/]*[0-~]?"
)
_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
_SCORES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "val_loss": "held-out loss",
    "val_accuracy": "held-out accuracy",
}


def record_line(record: Record) -> str:
    """A record of metrics.jsonl as one line; empty for a kind that is not shown. That of progress
    is without its time left."""
    epoch = _counted("epoch", record.epoch, record.epochs)
    if record.kind == "progress":
        step = _counted("step", record.step, record.steps)
        return _joined([epoch, step, *_scores(record), _speed(record)]) or clean(record.text)
    if record.kind == "epoch":
        return _joined([epoch, *_scores(record), _speed(record)])
    if record.kind == "evaluation":
        samples = record.figures.get("samples")
        on = f"on {samples:,.0f} held-out samples" if samples is not None else ""
        return _joined(["evaluation", *_scores(record), on])
    if record.kind == "stall":
        return f"no progress: {clean(record.text)}"
    if record.kind == "long_step":
        return f"a long step: {clean(record.text)}"
    return clean(record.text) if record.kind == "message" else ""


def _counted(noun: str, number: float | None, total: float | None) -> str:
    """`epoch 2/5`; a number is padded to the width of its total, so that the line does not move."""
    if number is None:
        return ""
    most = "" if total is None else f"{total:.0f}"
    return f"{noun} {number:>{len(most)}.0f}" + (f"/{most}" if most else "")


def _scores(record: Record) -> list[str]:
    values = {label: record.figures.get(key) for key, label in _SCORES.items()}
    return [f"{label} {_score(value)}" for label, value in values.items() if value is not None]


def _score(value: float) -> str:
    plain = value == 0 or 0.001 <= abs(value) < 1000 or not math.isfinite(value)
    return f"{value:.3f}" if plain else f"{value:.1e}"


def _speed(record: Record) -> str:
    speed = record.figures.get("samples_per_s")
    if speed is None:
        return ""
    return f"{speed:,.0f} samples/s" if speed >= 10 else f"{speed:.1f} samples/s"


def _joined(parts: Sequence[str]) -> str:
    return "  ".join(filter(None, parts))


def bar(fraction: float, width: int) -> str:
    """A bar of `width` cells between brackets; a fraction outside 0 to 1 is clipped."""
    share = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 0.0
    full = int(share * width)
    return f"[{'#' * full}{'.' * (width - full)}]"


def duration(seconds: float) -> str:
    """Seconds for people, in at most two units: `0.4 s`, `12 s`, `1 min 15 s`, `2 h 5 min`."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, large, lesser, small in _UNITS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {unit}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def size(count: float) -> str:
    """Bytes for people, in powers of 1000: `812 B`, `1.2 kB`, `21 MB`, `1.6 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.1f} {unit}" if count < 9.95 and unit != "B" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def count(number: int, noun: str) -> str:
    """`1 rank`, `2 ranks`; for nouns whose plural adds s or, after s, es."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def percent(fraction: float, digits: int = 0) -> str:
    """A fraction as percent: 0.5 is `50 %`."""
    return f"{fraction:.{digits}%}".replace("%", " %")


def clean(text: str) -> str:
    """One printable line: no escapes, no control or direction characters; breaks are spaces."""
    plain = _ESCAPE.sub("", text)
    return "".join(_printable(char) for char in plain)


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as printable lines, in columns; the first row is its head."""
    rows = [[*map(clean, row)] for row in rows]
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    padded = ([c + " " * (w - columns_of(c)) for c, w in zip(r, widths, strict=True)] for r in rows)
    return ["  ".join(cells).rstrip() for cells in padded]


def last_state(line: str) -> str:
    """The final state of a line on a terminal: a progress bar moves back and overwrites it."""
    states = [state for state in re.split(r"[\r\b]+", line) if state.strip()]
    return states[-1].rstrip() if states else ""


def _printable(char: str) -> str:
    if char in "\t\n\r\v\f\x85\u2028\u2029":
        return " "
    return "" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char


def fit(text: str, columns: int) -> str:
    """`text` cut to `columns` columns of a terminal; it ends in `...` if something was cut."""
    if columns_of(text) <= columns:
        return text
    fitting, room = "", columns - 3
    for char in text:
        room -= columns_of(char)
        if room < 0:
            break
        fitting += char
    return (fitting + "...")[: max(columns, 0)]


def columns_of(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def lines(out: str) -> list[str]:
    """The lines that are not blank, without surrounding space."""
    return [line for line in (raw.strip() for raw in out.splitlines()) if line]
