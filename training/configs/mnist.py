"""Handwritten digits of 28 x 28 pixels, from IDX files."""

from __future__ import annotations

from typing import Any

SUMMARY = "the MNIST CNN of the SMDDP tutorial on MNIST in IDX files"
CHANGES: dict[str, Any] = {
    "data": "mnist",
    "model": "mnist-cnn",
    "shift": 0,
    "epochs": 5,
    "batch_size": 64,
}
