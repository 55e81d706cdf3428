"""Is a film review good or bad?"""

from __future__ import annotations

from typing import Any

SUMMARY = "a text classifier on IMDb reviews"
CHANGES: dict[str, Any] = {
    "data": "imdb",
    "task": "binary",
    "model": "text",
    "epochs": 5,
    "batch_size": 64,
}
