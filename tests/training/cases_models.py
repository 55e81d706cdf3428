"""Augmentation of images, and every model of the registry."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from standins.case_runner import case, refused

from training import data, models
from training.config import TrainConfig
from training.data import augment
from training.models.build import build_model


@case
def augmentation_depends_on_seed_epoch_and_sample_alone(folder: Path) -> None:
    numbers = tf.range(1000, dtype=tf.int64)
    draws = augment.draws(1, 2, numbers, 0).numpy()
    assert (augment.draws(1, 2, numbers[10:20], 0).numpy() == draws[10:20]).all()
    others = [(2, 2, 0), (1, 3, 0), (1, 2, 1)]
    for seed, epoch, draw in others:
        assert (augment.draws(seed, epoch, numbers, draw).numpy() != draws).mean() > 0.9
    counts = np.bincount(draws % 3, minlength=3)
    assert counts.min() > 270, counts


@case
def a_shift_moves_an_image_and_a_flip_mirrors_it(folder: Path) -> None:
    image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    moved = augment.shift_images(image, 1, tf.constant([0], tf.int64), tf.constant([1], tf.int64))
    assert moved[0, :, :, 0].numpy().tolist() == [[0, 0, 0], [0, 1, 2], [3, 4, 5]]
    flipped = augment.flip_images(image, tf.constant([1], tf.int64))
    assert flipped[0, 0, :, 0].numpy().tolist() == [2, 1, 0]


@case
def every_model_takes_its_inputs(folder: Path) -> None:
    shapes = {"mlp": (5,), "resnet50": (32, 32, 3), "transfer": (32, 32, 3), "text": (9,)}
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg"
    )
    weights = folder / "base.weights.h5"
    base.save_weights(weights)
    for name in models.MODELS:
        inputs = data.Inputs(shapes.get(name, (28, 28, 3)), 50 if name == "text" else 0)
        config = TrainConfig(model=name, weights=str(weights) if name == "transfer" else "")
        model = build_model(inputs, 4, config)
        assert model(np.ones((2, *inputs.shape), np.int64)).shape == (2, 4), name
    names = [variable.path for variable in model.trainable_variables]
    assert names
    transfer = build_model(
        data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer", weights=str(weights))
    )
    assert len(transfer.trainable_variables) == 2
    with refused("needs weights"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer"))
    with refused("there is no file"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer", weights="x.h5"))
    for shape in ((5,), (3, 3, 1)):
        with refused(f"model cifar-cnn does not take samples of shape {shape}"):
            build_model(data.Inputs(shape), 4, TrainConfig(model="cifar-cnn"))
    (folder / "x.weights.h5").write_bytes(b"x")
    with refused("do not fit mobilenet_v2"):
        config = TrainConfig(model="transfer", weights=str(folder / "x.weights.h5"))
        build_model(data.Inputs((32, 32, 3)), 4, config)
