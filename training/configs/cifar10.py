"""Ten kinds of things, 32 x 32 pixels in colour."""

from __future__ import annotations

from typing import Any

SUMMARY = "a CNN on CIFAR-10 in binary batches"
CHANGES: dict[str, Any] = {
    "data": "cifar10",
    "model": "cifar-cnn",
    "shift": 4,
    "flip": "on",
    "epochs": 30,
    "batch_size": 64,
}
