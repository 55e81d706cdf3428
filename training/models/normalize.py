"""The layer that brings inputs to one scale, by the training data."""

from __future__ import annotations

from typing import Any

from keras import layers

from ..data import Inputs


def normalization(inputs: Inputs) -> list[Any]:
    """A layer for flattened inputs, as a list; [] if inputs have no mean, such as words.

    Its mean and variance are constants, so that the exported model has them. Batch normalization
    as first layer needs hundreds of steps until its moving averages are those of the data.
    """
    moments = inputs.moments()
    if not moments.mean:
        return []
    if len(moments.mean) == 1:
        (mean,), (variance,) = moments.mean, moments.variance
        return [layers.Normalization(axis=None, mean=mean, variance=variance)]
    return [layers.Normalization(mean=list(moments.mean), variance=list(moments.variance))]
