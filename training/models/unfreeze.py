"""Trains the frozen layers of a model, too."""

from __future__ import annotations

from typing import Any

import keras


def unfreeze(model: Any) -> None:
    """Train all layers. Frozen batch normalisation stays frozen, with the statistics of its
    pre-training, as Keras' guide to transfer learning recommends."""
    frozen = frozen_layers(model)
    for layer in frozen:  # the outer ones first, which set the inner ones
        layer.trainable = True
    for layer in frozen:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.trainable = False


def frozen_layers(model: Any) -> list[Any]:
    """The layers that are not trained, also those inside others."""
    return [layer for layer in model._flatten_layers() if not layer.trainable]
