"""Any folder with a folder of images per class."""

from __future__ import annotations

from typing import Any

SUMMARY = "a CNN on your own images, one folder per class"
CHANGES: dict[str, Any] = {
    "data": "images",
    "model": "cifar-cnn",
    "shift": 4,
    "flip": "on",
    "epochs": 20,
}
