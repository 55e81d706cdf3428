"""Weights of a pre-trained network: from a file, or ImageNet's if they can be fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from ..results import TrainingError

APPLICATIONS = {
    "resnet50": keras.applications.ResNet50,
    "mobilenet_v2": keras.applications.MobileNetV2,
}


def load_weights(base: Any, weights: str, application: str) -> None:
    """Load `weights` into `base`: a .weights.h5, .h5 or .keras file, "imagenet", or nothing."""
    if not weights:
        return
    try:
        if weights == "imagenet":
            imagenet = APPLICATIONS[application](include_top=False, pooling="avg")
            base.set_weights(imagenet.get_weights())
        elif not Path(weights).is_file():
            raise TrainingError(f"weights: there is no file {weights}")
        else:
            base.load_weights(weights)
    except TrainingError:
        raise
    except Exception as error:  # Keras and h5py raise many kinds for a file that does not fit
        raise TrainingError(f"weights {weights} do not fit {application}: {error}") from None
