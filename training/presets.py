"""Presets: named differences from the default settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .config import require_choice


@dataclass(frozen=True)
class Preset:
    """`summary`: one line for people; `changes`: the settings that differ from the defaults."""

    summary: str
    changes: Mapping[str, Any] = field(default_factory=dict)


DEFAULT = "digits"
# fmt: off
PRESETS = {
    "digits": Preset("a small CNN on 1797 real handwritten digits (the default)"),
    "linear": Preset(
        "softmax regression on the digits, the baseline",
        {"model": "linear", "learning_rate": 0.01},
    ),
    "smoke": Preset(
        "ten steps of a linear model: shows that a run starts and ends, learns little",
        {"model": "linear", "shift": 0, "epochs": 2, "steps_per_epoch": 5, "warmup_epochs": 0.0,
         "decay": "none"},
    ),
    "synthetic": Preset(
        "the CNN on generated images, for launch tests and timings",
        {"data": "synthetic", "shift": 0, "synthetic_samples": 8192, "epochs": 3,
         "batch_size": 64},
    ),
    "mnist": Preset(
        "the MNIST CNN of the SMDDP tutorial on MNIST in IDX files",
        {"data": "mnist", "model": "mnist-cnn", "shift": 0, "epochs": 5, "batch_size": 64},
    ),
    "fashion-mnist": Preset(
        "the same CNN on Fashion-MNIST",
        {"data": "fashion-mnist", "model": "mnist-cnn", "shift": 0, "epochs": 5, "batch_size": 64},
    ),
    "cifar10": Preset(
        "a CNN on CIFAR-10 in binary batches",
        {"data": "cifar10", "model": "cifar-cnn", "shift": 4, "flip": "on", "epochs": 30,
         "batch_size": 64},
    ),
    "imdb": Preset(
        "a text classifier on IMDb reviews",
        {"data": "imdb", "task": "binary", "model": "text", "epochs": 5, "batch_size": 64},
    ),
    "images": Preset(
        "a CNN on your own images, one folder per class",
        {"data": "images", "model": "cifar-cnn", "shift": 4, "flip": "on", "epochs": 20},
    ),
    "table": Preset(
        "two hidden layers on your own CSV files",
        {"data": "csv", "model": "mlp", "learning_rate": 0.003},
    ),
}
# fmt: on


def changes(preset: str) -> Mapping[str, Any]:
    """What this preset changes; ConfigError for an unknown name."""
    require_choice("preset", preset, PRESETS)
    return PRESETS[preset].changes


def summaries() -> dict[str, str]:
    """Name and one line of each preset."""
    return {name: preset.summary for name, preset in PRESETS.items()}
