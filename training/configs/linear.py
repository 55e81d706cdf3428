"""Softmax regression on the digits: the baseline that a network has to beat."""

from __future__ import annotations

from typing import Any

SUMMARY = "softmax regression on the digits, the baseline"
CHANGES: dict[str, Any] = {"model": "linear", "learning_rate": 0.01}
