"""Finds the epochs of a script in the lines that Keras itself prints: `Epoch 2/5`, then the last
state of the progress bar. Keras 2 and 3, verbose=1 or 2.
"""

from __future__ import annotations

import re

LINE = 4000  # characters of a line that are read
COLOURS = re.compile(r"\x1b\[[0-9;]{0,16}m")
EPOCH = re.compile(r"Epoch (\d{1,9})/(\d{1,9})")
STEPS = re.compile(r" {0,20}(\d{1,12})/(\d{1,12}) ")
FIGURE = re.compile(
    r" - ([A-Za-z_][\w./-]{0,63}): (-?\d[\d.]{0,30}(?:e[+-]?\d{1,3})?|nan|-?inf)(?= |$)"
)
STEP_TIME = re.compile(r" (\d{1,9})(us|ms|s)/step")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class KerasLines:
    """Reads the lines of one rank. A second `fit` continues the count of the epochs."""

    def __init__(self) -> None:
        self.epoch: int | None = None  # the epoch in progress
        self.total = 0
        self.last = self.before = 0  # the last epoch; epochs of earlier fits

    def feed(self, line: str) -> dict[str, float] | None:
        """The figures of the epoch that ends with this line; None for other lines."""
        text = COLOURS.sub("", line[:LINE])
        if begins := EPOCH.fullmatch(text.strip()):
            self._begin(int(begins[1]), int(begins[2]))
            return None
        steps = STEPS.match(text)
        if self.epoch is None or not steps or steps[1] != steps[2]:
            return None
        figures = {name: float(value) for name, value in FIGURE.findall(text)}
        if not figures:
            return None
        if time := STEP_TIME.search(text):
            figures["step_s"] = int(time[1]) * UNITS[time[2]]
        number = self.before + self.epoch
        self.last, self.epoch = self.epoch, None  # later lines are from evaluate() or predict()
        total = self.before + self.total
        return {**figures, "epoch": number, "epochs": total}

    def _begin(self, epoch: int, total: int) -> None:
        if epoch <= self.last:
            self.before, self.last = self.before + self.last, 0
        self.epoch, self.total = epoch, total
