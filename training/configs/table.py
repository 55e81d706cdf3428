"""Any table in CSV files."""

from __future__ import annotations

from typing import Any

SUMMARY = "two hidden layers on your own CSV files"
CHANGES: dict[str, Any] = {
    "data": "csv",
    "model": "mlp",
    "learning_rate": 0.003,
}
