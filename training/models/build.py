"""Builds the model that a setting names, and checks that its outputs fit the loss."""

from __future__ import annotations

import importlib
import traceback
from types import ModuleType
from typing import Any

import keras
import numpy as np
from keras import layers

from ..config import TrainConfig
from ..data import Inputs
from ..own import call
from ..registry import MODELS
from ..results import TrainingError

PROBABILITIES = ("softmax", "sigmoid")


def build_model(inputs: Inputs, outputs: int, config: TrainConfig) -> Any:
    """Build the model that `config.model` names: a Functional or Sequential one, also where
    `build` returns a subclass of keras.Model.

    Raises:
        TrainingError: it does not take such inputs, or its outputs are not logits [batch, outputs].
    """
    name = f"model {config.model}"
    module = importlib.import_module(MODELS[config.model])
    try:
        built = module.build(inputs, outputs, config)
        if not isinstance(built, keras.Model):
            raise TypeError(f"build() returned {built!r}, which is not a Keras model")
        model = _with_inputs(built, inputs)
    except TrainingError:
        raise
    except Exception as error:  # other dimensions, images smaller than a window, faults in build()
        raise TrainingError(
            f"{name} does not take samples of shape {inputs.shape}: {_cause(error, module)}\n"
            "--set model=mlp and --set model=linear take any"
        ) from error
    _check_outputs(model, name, outputs)
    if config.task != "regression" and (activation := _last_activation(model, outputs)):
        raise TrainingError(
            f"{name} ends with {activation}, and the loss of task {config.task} takes logits: "
            "remove the activation of its last layer"
        )
    if config.task == "regression":
        model = _in_units_of_labels(model, inputs)
    return _augmented(model, inputs, config.augment) if config.augment else model


def _with_inputs(model: Any, inputs: Inputs) -> Any:
    """The model with inputs and outputs of known shapes."""
    if getattr(model, "inputs", None):
        return model
    samples = keras.Input(inputs.shape, dtype="int64" if inputs.vocabulary else "float32")
    outputs = model(samples)
    # A Sequential model knows its inputs from now on; a subclass becomes the only layer of another.
    return model if getattr(model, "inputs", None) else keras.Model(samples, outputs)


def _in_units_of_labels(model: Any, inputs: Inputs) -> Any:
    """The model, whose outputs of mean 0 and variance 1 are scaled to the training labels."""
    moments = inputs.moments()
    scale = layers.Rescaling(
        moments.label_deviation, moments.label_mean, dtype="float32", name="in_units_of_labels"
    )
    return keras.Model(model.inputs[0], scale(model.outputs[0]), name=model.name)


def _augmented(model: Any, inputs: Inputs, place: str) -> Any:
    """The model after the layers of `augment`, which change samples in training only."""
    own_layers = call("augment", place)
    if not own_layers:
        return model
    try:
        augmented = keras.Sequential([keras.Input(inputs.shape), *own_layers, model])
    except Exception as error:  # not a layer, or not one for such inputs
        reason = " ".join(str(error).split())[:300]
        raise TrainingError(
            f"augment: {place} does not fit samples {inputs.shape}: {reason}"
        ) from error
    if augmented.layers[-2].output.shape[1:] != inputs.shape:
        shape = augmented.layers[-2].output.shape[1:]
        raise TrainingError(f"augment: {place} makes {shape} of samples {inputs.shape}")
    return augmented


def _cause(error: Exception, module: ModuleType) -> str:
    """The first lines of an error, and the line of the model's module that it came from."""
    text = " ".join(str(error).split())[:300]
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == module.__file__]
    place = f" ({module.__file__}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {text}{place}"


def _check_outputs(model: Any, name: str, outputs: int) -> None:
    shape = model.output_shape
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] not in (None, outputs):
        raise TrainingError(
            f"{name} has outputs of shape {shape}, and the task needs (None, {outputs}): "
            "end build() with keras.layers.Dense(outputs)"
        )


def _last_activation(model: Any, outputs: int) -> str:
    """The activation that turns the outputs into probabilities; empty if there is none."""
    last = model
    while getattr(last, "outputs", None):
        last = last.outputs[0]._keras_history.operation
    if isinstance(last, keras.Model):  # a subclass: only its values show it
        sample = np.zeros((1, *model.input_shape[1:]), model.inputs[0].dtype)
        values = keras.ops.convert_to_numpy(model(sample))
        is_distribution = outputs > 1 and (values >= 0).all() and abs(values.sum() - 1) < 1e-3
        return "softmax" if is_distribution else ""
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    return next((x for x in PROBABILITIES if x in (activation, type(last).__name__.lower())), "")
