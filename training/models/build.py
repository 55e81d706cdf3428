"""Builds the model that a setting names."""

from __future__ import annotations

import importlib
from typing import Any

from training.config import TrainConfig
from training.data import Inputs
from training.models import MODELS
from training.results import TrainingError


def build_model(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Build the model that `config.model` names.

    Raises:
        TrainingError: it does not take such inputs.
    """
    build = importlib.import_module(MODELS[config.model]).build
    try:
        return build(inputs, outputs, config)
    except ValueError as error:  # Keras: other dimensions, or images smaller than its windows
        raise TrainingError(
            f"model {config.model} does not take samples of shape {inputs.shape}:"
            " --set model=mlp and --set model=linear take any"
        ) from error
