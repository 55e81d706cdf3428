"""Augmentation of images, and every model of the registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from samples.trainings import folder_with, losses, own_model, run, same
from standins.case_runner import case, refused

from training import data
from training.config import TrainConfig
from training.data import augment, splits
from training.data.arrays import Arrays
from training.data.moments import moments_of
from training.data.shards import shard_writer
from training.data.uri import DataSource
from training.models.build import build_model
from training.registry import MODELS


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
    built = {}
    for name in MODELS:
        inputs = data.Inputs(shapes.get(name, (28, 28, 3)), 50 if name == "text" else 0)
        config = TrainConfig(model=name, weights=str(weights) if name == "transfer" else "")
        model = built[name] = build_model(inputs, 4, config)
        assert model(np.ones((2, *inputs.shape), np.int64)).shape == (2, 4), name
        assert model.trainable_variables, name
    assert len(built["transfer"].trainable_variables) == 2
    assert len(built["resnet50"].trainable_variables) == 212 + 2, "all of it"
    with refused("needs weights"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer"))
    with refused("there is no file"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer", weights="x.h5"))
    for shape, cause in (((5,), "expected min_ndim=4"), ((3, 3, 1), "size")):
        with refused(f"model cifar-cnn does not take samples of shape {shape}: ValueError", cause):
            build_model(data.Inputs(shape), 4, TrainConfig(model="cifar-cnn"))
    (folder / "x.weights.h5").write_bytes(b"x")
    with refused("do not fit mobilenet_v2"):
        config = TrainConfig(model="transfer", weights=str(folder / "x.weights.h5"))
        build_model(data.Inputs((32, 32, 3)), 4, config)


def rows(*last: Any) -> Callable[..., Any]:
    """A build function whose model ends with these layers."""

    def build(inputs: Any, outputs: int, config: Any) -> Any:
        return keras.Sequential([layers.Input(inputs.shape), layers.Flatten(), *last])

    return build


@keras.saving.register_keras_serializable()
class Subclass(keras.Model):  # type: ignore[misc]
    """One's own model, with a layer that it does not use."""

    def __init__(self, activation: str | None = None, **more: Any) -> None:
        super().__init__(**more)
        self.flat, self.spare = layers.Flatten(), layers.Dense(3, name="spare")
        self.dense = layers.Dense(10, activation=activation)

    def build(self, shape: Any) -> None:
        self.spare.build((None, 4))
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        return self.dense(self.flat(inputs))


@case
def models_that_do_not_fit_the_task_are_refused(folder: Path) -> None:
    def faulty(inputs: Any, outputs: int, config: Any) -> Any:
        raise KeyError("width")

    ten = layers.Dense(10)
    for build, cause in (
        (rows(layers.Dense(13)), "has outputs of shape (None, 13), and the task needs (None, 10)"),
        (rows(layers.Reshape((1, -1)), layers.Dense(10)), "(None, 1, 10)"),
        (rows(layers.Dense(10, activation="softmax")), "ends with softmax"),
        (rows(ten, layers.Softmax()), "ends with softmax"),
        (rows(keras.Sequential([layers.Dense(10, activation="sigmoid")])), "ends with sigmoid"),
        (lambda *_: Subclass("softmax"), "ends with softmax"),
        (lambda *_: None, "build() returned None, which is not a Keras model"),
        (faulty, f"does not take samples of shape (8, 8, 1): KeyError: 'width' ({__file__}, line"),
    ):
        with own_model(build), refused("model linear", cause):
            build_model(data.Inputs((8, 8, 1)), 10, TrainConfig(model="linear"))
    with own_model(rows(layers.Dense(1, activation="softmax"))):
        build_model(data.Inputs((3,)), 1, TrainConfig(model="linear", task="regression"))


@case
def a_subclass_with_an_unused_weight_is_trained_and_exported(folder: Path) -> None:
    with own_model(lambda *_: Subclass()):
        outcome = run(folder, export="on")
    assert losses(outcome)[-1][0] < losses(outcome)[0][0]
    (message,) = [text for text in outcome.messages if "spare/kernel" in text]
    assert "/dense" not in message, "the other layer is trained"
    inputs = outcome.training.data.validation.values[:3]
    served = tf.saved_model.load(str(folder / "saved_model"))
    expected = outcome.training.model(inputs).numpy()
    np.testing.assert_allclose(served.serve(inputs).numpy(), expected, atol=1e-5)
    loaded = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(loaded(inputs).numpy(), expected, atol=1e-5)


def people(rows: int = 600) -> tuple[Any, Any]:
    """Year, age and pay, and whether somebody belongs to a class that follows from age and pay."""
    random = np.random.RandomState(0)
    year, age = random.randint(1990, 2024, rows), random.randint(18, 66, rows)
    pay = random.lognormal(10, 0.5, rows).round()
    score = (age - 40) / 10 + (np.log(pay) - 10) / 0.5
    return np.stack([year, age, pay, np.full(rows, 7)], axis=1).astype(np.float32), score


@case
def tables_of_any_scale_are_learned_and_exported(folder: Path) -> None:
    x, score = people()
    for task, y in (("classification", (score > 0) * 1), ("regression", 2000 + 30 * score)):
        with folder_with(folder / f"data-{task}", x=x, y=y) as source:
            models_of = {"mlp": 0.005, **({"linear": 0.1} if task == "regression" else {})}
            for model, rate in models_of.items():
                sources = {"train": source, "validation": source}
                outcome = run(folder / f"{task}-{model}", data="numpy", model=model, task=task,
                            epochs=5, learning_rate=rate, data_folders=sources)  # fmt: skip
                if task == "regression":
                    constant = float(np.abs(y - y.mean()).mean())
                    assert outcome.evaluation["mae"] < 0.6 * constant, outcome.evaluation
                else:
                    assert outcome.evaluation["accuracy"] > 0.9, outcome.evaluation
        loaded = keras.models.load_model(folder / f"{task}-mlp/model.keras")
    np.testing.assert_allclose(loaded(x).numpy()[:, 0].mean(), y.mean(), rtol=0.01)


@case
def the_steps_of_a_regression_do_not_depend_on_the_unit_of_its_labels(folder: Path) -> None:
    x, score = people(64)
    weights = []
    for number, unit in enumerate((1.0, 1000.0)):
        with folder_with(folder / f"d-{number}", x=x, y=score * unit) as source:
            outcome = run(folder / f"r-{number}", data="numpy", model="linear", task="regression",
                        optimizer="sgd", data_folders={"train": source})  # fmt: skip
            weights.append(outcome)
    first, second = weights
    same(first, second, 1e-4)
    of_one, of_thousand = (outcome.evaluation["mae"] for outcome in weights)
    np.testing.assert_allclose(of_thousand, of_one * 1000, rtol=1e-3)


@case
def moments_are_those_of_the_training_data(folder: Path) -> None:
    random = np.random.RandomState(0)
    x, y = random.normal(1000, 3, (5000, 2)).astype(np.float32), random.normal(7, 2, 5000)
    for samples in (Arrays(x, y), shards_of(folder / "s", x, y.astype(np.float32))):
        moments = moments_of(samples)
        np.testing.assert_allclose(moments.mean, x.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(moments.variance, x.astype(float).var(axis=0), rtol=1e-4)
        np.testing.assert_allclose(moments.label_deviation, y.std(), rtol=1e-5)
    pixels = Arrays(np.full((4, 3, 3, 1), 51, np.uint8), np.zeros(4, np.int64))
    assert moments_of(pixels).mean == (0.2,) and moments_of(pixels).variance == (1.0,)


def shards_of(folder: Path, x: Any, y: Any) -> Any:
    shard_writer.write(Arrays(x, y), str(folder), 3)
    source = {name: DataSource(str(folder)) for name in ("train", "validation")}
    return splits.load(TrainConfig(data="shards", task="regression"), source).train
