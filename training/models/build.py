"""Builds the model that a setting names."""

from __future__ import annotations

import importlib
from typing import Any

from training.config import TrainConfig
from training.data import Inputs
from training.models import MODELS


def build_model(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Build the model that `config.model` names."""
    return importlib.import_module(MODELS[config.model]).build(inputs, outputs, config)
