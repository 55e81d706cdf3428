"""Generated images instead of a data set, to measure everything but the data."""

from __future__ import annotations

from typing import Any

SUMMARY = "the CNN on generated images, for launch tests and timings"
CHANGES: dict[str, Any] = {
    "data": "synthetic",
    "shift": 0,
    "synthetic_samples": 8192,
    "epochs": 3,
    "batch_size": 64,
}
