"""The default, named `digits`: every setting is the one that TrainConfig states."""

from __future__ import annotations

from typing import Any

SUMMARY = "a small CNN on 1797 real handwritten digits (the default)"
CHANGES: dict[str, Any] = {}
