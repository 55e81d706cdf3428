"""The variables of a Keras 3 model by what happens to them in a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tensors_of(variables: Sequence[Any]) -> list[Any]:
    """The tf.Variables inside Keras 3's variables; neither the tape nor Horovod understands the
    latter."""
    return [variable.value for variable in variables]


def moving(model: Any) -> list[Any]:
    """The floats that a step changes without a gradient, such as batch normalisation's moving
    averages. Those of a frozen layer stay as they are."""
    layers = model._flatten_layers()
    frozen = {id(v) for layer in layers if not layer.trainable for v in layer.variables}
    return [
        variable
        for variable in model.non_trainable_weights
        if id(variable) not in frozen and tensors_of([variable])[0].dtype.is_floating
    ]


def is_seed(variable: Any) -> bool:
    """Whether this is the state of a random layer, such as Dropout."""
    return str(variable.path).endswith("seed_generator_state")
