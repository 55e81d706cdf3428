"""Does a run start, step together and end? A second of work after the imports."""

from __future__ import annotations

from typing import Any

SUMMARY = "ten steps of a linear model: shows that a run starts and ends, learns little"
CHANGES: dict[str, Any] = {
    "model": "linear",
    "shift": 0,
    "epochs": 2,
    "steps_per_epoch": 5,
    "warmup_epochs": 0.0,
    "decay": "none",
}
