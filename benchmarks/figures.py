"""A figure of a benchmark: ours beside a peer's from the same run, and its goal."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

MISSED = 3  # the exit code of a benchmark that misses a goal; Python's own of an error is 1
VARIABLE = "BENCHMARK_FIGURES"  # a file that gets a line of JSON for each figure


@dataclass(frozen=True)
class Figure:
    """`ours` and `theirs` are measured in turns, one of each a round. `goal` is the most that the
    median of their ratios may be; of `ours` itself where there is no peer."""

    what: str
    unit: str
    ours: Sequence[float]
    goal: float
    peer: str = ""
    theirs: Sequence[float] = ()

    @property
    def compared(self) -> list[float]:
        """What the goal is about, round by round."""
        if not self.theirs:
            return list(self.ours)
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def kept(self) -> bool:
        return median(self.compared) <= self.goal

    def cells(self) -> tuple[str, ...]:
        """A row under HEAD."""
        ours = f"{short(median(self.ours))} {self.unit}"
        theirs = f"{self.peer}: {short(median(self.theirs))} {self.unit}" if self.theirs else ""
        times = "x" if self.theirs else f" {self.unit}"
        low, middle, high = (short(of(self.compared)) for of in (min, median, max))
        ratio = f"{middle}{times} ({low} to {high})"
        kept = "kept" if self.kept else "**missed**"
        return self.what, ours, theirs, ratio, f"{short(self.goal)}{times}", kept


HEAD = ("what", "Railhead", "beside it", "median (least to most)", "goal", "")


def short(number: float) -> str:
    """Three digits, as 7.94, 0.0231 or 1560."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def emit(*figures: Figure) -> int:
    """Print figures and leave them to `make bench`; MISSED if a goal is."""
    for figure in figures:
        print("  ".join(cell.replace("*", "") for cell in figure.cells() if cell), flush=True)
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as out:
            out.writelines(json.dumps(asdict(figure)) + "\n" for figure in figures)
    return 0 if all(figure.kept for figure in figures) else MISSED


def from_json(document: Any) -> Figure:
    """The figure that a line or an entry describes."""
    return Figure(**document)
