"""Presets: named differences from the default settings. Each module has SUMMARY and CHANGES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import require_choice
from . import (
    cifar10,
    default,
    fashion_mnist,
    images,
    imdb,
    linear,
    mnist,
    smoke,
    synthetic,
    table,
)

DEFAULT = "digits"
PRESETS = {
    "digits": default,
    "linear": linear,
    "smoke": smoke,
    "synthetic": synthetic,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "imdb": imdb,
    "images": images,
    "table": table,
}


def changes(preset: str) -> Mapping[str, Any]:
    """What this preset changes; ConfigError for an unknown name."""
    require_choice("preset", preset, PRESETS)
    changed: Mapping[str, Any] = PRESETS[preset].CHANGES
    return changed


def summaries() -> dict[str, str]:
    """Name and one line of each preset."""
    return {name: preset.SUMMARY for name, preset in PRESETS.items()}
