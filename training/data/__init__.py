"""Data sets by name. Each module's `load(config)` returns a `Dataset`; names need no numpy."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.config import TrainConfig

DATASETS = {"digits": "training.data.digits", "synthetic": "training.data.synthetic"}


@dataclass(frozen=True)
class Samples:
    """Images, float32 [samples, height, width, channels] in 0..1, and labels, int64 [samples]."""

    images: Any
    labels: Any

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """What a model learns from, and what it is judged by; no sample stands in both."""

    name: str
    train: Samples
    held_out: Samples
    classes: int


def load(config: TrainConfig) -> Dataset:
    """Read the data set that `config.data` names."""
    dataset: Dataset = importlib.import_module(DATASETS[config.data]).load(config)
    return dataset
