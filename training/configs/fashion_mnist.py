"""Pictures of clothes, in the format of MNIST."""

from __future__ import annotations

from typing import Any

SUMMARY = "the same CNN on Fashion-MNIST"
CHANGES: dict[str, Any] = {
    "data": "fashion-mnist",
    "model": "mnist-cnn",
    "shift": 0,
    "epochs": 5,
    "batch_size": 64,
}
