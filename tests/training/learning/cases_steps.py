"""Steps and epochs: two replicas against one, and what ends a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers
from samples.files import image_folder
from samples.trainings import folder_with, losses, own_model, prepared, run, same
from standins.case_runner import case, refused

from training.data.__main__ import main as data_command
from training.evaluation.scores import counts_of, means, per_class


@case
def the_first_line_says_batch_steps_and_rate(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        synthetic_samples=5656, batch_size=64, learning_rate=0.1, steps=1
    )
    alone = prepared(folder / "1", **settings).announcement("one-device")
    assert "5656 samples, global batch 64, 89 steps per epoch, learning rate 0.1" in alone
    two = prepared(folder / "2", mirrored=True, **settings).announcement("mirrored")
    assert "5656 samples, global batch 128, 45 steps per epoch, learning rate 0.2" in two


@case
def two_replicas_with_padding_make_the_model_of_one(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        synthetic_samples=37, global_batch=8, warmup_epochs=0.0, optimizer="sgd"
    )
    alone, two = run(folder / "1", **settings), run(folder / "2", mirrored=True, **settings)
    same(two, alone)
    np.testing.assert_allclose(losses(two), losses(alone), rtol=1e-5)
    assert two.evaluation["samples"] == alone.evaluation["samples"] == 7
    assert two.evaluation["accuracy"] == alone.evaluation["accuracy"]
    assert np.sum(two.evaluation["confusion"]) == 7


@case
def the_accuracy_counts_no_padding(folder: Path) -> None:
    """The 33rd sample is alone in its step: the second replica has none."""
    labels = np.arange(33) // 7
    x = np.eye(33)
    with folder_with(folder / "d", x=x, y=labels) as source:
        sources = {"train": source, "validation": source}
        settings: dict[str, Any] = dict(data="numpy", data_folders=sources, epochs=3)
        outcome = run(folder / "r", mirrored=True, **settings)
    outputs = outcome.training.model(x.astype(np.float32)).numpy()
    right = outputs.argmax(axis=1) == labels
    assert 0 < right.sum() < 33 and outcome.evaluation["samples"] == 33
    np.testing.assert_allclose(outcome.evaluation["accuracy"], right.mean(), rtol=1e-6)
    shares = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    mean = -np.log(shares[np.arange(33), labels]).mean()
    np.testing.assert_allclose(outcome.evaluation["loss"], mean, rtol=1e-5)
    confusion = np.array(outcome.evaluation["confusion"])
    assert confusion.trace() == right.sum() and confusion.sum() == 33


@case
def many_classes_have_means_without_a_matrix(folder: Path) -> None:
    """The same counts, whether there is a confusion matrix or not."""
    labels = np.arange(160) % 110
    x = np.eye(110)[labels]
    with folder_with(folder / "d", x=x, y=labels) as source:
        sources = {"train": source, "validation": source}
        settings: dict[str, Any] = dict(data="numpy", data_folders=sources, epochs=6)
        outcome = run(folder / "r", mirrored=True, **settings)
    predicted = outcome.training.model(x).numpy().argmax(axis=1)
    right = predicted == labels
    recall = np.bincount(labels[right], minlength=110) / np.bincount(labels)
    assert 0 < right.sum() < 160 and "confusion" not in outcome.evaluation
    np.testing.assert_allclose(outcome.evaluation["recall"], recall.mean(), rtol=1e-6)
    matrix = np.zeros((110, 110), int)
    np.add.at(matrix, (labels, predicted), 1)
    expected = means(per_class(counts_of(matrix.tolist()), [""] * 110))
    assert {name: outcome.evaluation[name] for name in expected} == expected


@case
def a_loss_that_is_no_number_names_its_step_and_rank(folder: Path) -> None:
    values = np.full((64, 3, 1), 3e38, np.float32)  # numbers, whose sums are not; no table
    with folder_with(folder / "d", x=values, y=np.arange(64) % 2) as source:
        settings: dict[str, Any] = dict(
            data="numpy", data_folders={"train": source, "validation": source}
        )
        with refused("the loss of step", "is not a number on rank 0"):
            run(folder / "r", epochs=1, **settings)
    with refused("is not a number on rank 0: lower learning_rate (1e+38, here 2e+38)"):
        high: dict[str, Any] = dict(learning_rate=1e38, warmup_epochs=0.0, epochs=20)
        run(folder / "s", mirrored=True, **high)  # a rank is a process, not a replica


def logarithms(inputs: Any, outputs: int, config: Any) -> Any:
    """A negative input makes a moving average that is not a number, which the loss does not see."""
    positive = layers.Activation(lambda x: keras.ops.where(x > 0, x, 0.0))
    rows = [layers.Input(inputs.shape), layers.Activation(keras.ops.log)]
    rows += [layers.BatchNormalization(name="norm"), positive, layers.Dense(outputs)]
    return keras.Sequential(rows)


def root_of_zero(inputs: Any, outputs: int, config: Any) -> Any:
    """A finite loss whose gradient is not a number."""
    absolute = layers.Activation(lambda x: keras.ops.sqrt(x * x))
    rows = [layers.Input(inputs.shape), layers.Dense(4, kernel_initializer="zeros", name="first")]
    return keras.Sequential([*rows, absolute, layers.Dense(outputs)])


@case
def values_in_the_model_that_are_no_numbers_are_named(folder: Path) -> None:
    """Where the loss stays finite."""
    x, named = np.ones((64, 3)), "norm/moving_mean after step"
    x[40, 1] = -1
    with folder_with(folder / "d", x=x, y=np.arange(64) % 2) as source:
        settings: dict[str, Any] = dict(data="numpy", data_folders={"train": source}, epochs=1)
        with own_model(logarithms), refused(named, "is not a number on rank 0"):
            run(folder / "r", mirrored=True, **settings)
        for precision, kind in (("float32", "sequential"), ("mixed_float16", "step")):
            with own_model(root_of_zero), refused(f"the gradient of {kind}", "is not a number"):
                run(folder / precision, precision=precision, **{**settings, "epochs": 20})


class Masked(layers.Layer):  # type: ignore[misc]
    """A weight that no step changes: minus infinity takes the first input away."""

    def build(self, shape: Any) -> None:
        values = keras.initializers.Constant(np.eye(1, shape[-1])[0])
        mask = self.add_weight(shape=shape[-1:], initializer=values, trainable=False)
        mask.assign(keras.ops.where(mask.value > 0, -np.inf, 0.0))
        self.mask = mask

    def call(self, inputs: Any) -> Any:
        return inputs * keras.ops.exp(self.mask)


@case
def a_constant_of_infinity_and_a_regularizer_of_float16_are_no_faults(folder: Path) -> None:
    def build(inputs: Any, outputs: int, config: Any) -> Any:
        rows = [layers.Input(inputs.shape), layers.Flatten(), Masked()]
        rows += [layers.Dense(8, activity_regularizer="l2"), layers.Dense(outputs, dtype="float32")]
        return keras.Sequential(rows)

    with own_model(build):
        outcome = run(folder, precision="mixed_float16", accumulation=2)
    (mask,) = outcome.training.model.non_trainable_weights
    assert np.isneginf(mask.numpy()[0]) and not mask.numpy()[1:].any()
    assert losses(outcome)[-1][0] < losses(outcome)[0][0]


@case
def a_broken_record_is_named(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    arguments = ["shard", str(folder / "images"), str(folder / "shards"), "--shards", "2"]
    assert data_command([*arguments, "--data", "images", "--set", "image_size=8"]) == 0
    shard = max((folder / "shards").glob("*.tfrecord"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 255
    shard.write_bytes(content)
    with refused(shard.name):
        settings: dict[str, Any] = dict(data="images", model="linear", image_size=8, epochs=3)
        run(folder / "r", data_folders={"train": folder / "shards"}, **settings)


@case
def fewer_samples_than_replicas_train_all_the_same(folder: Path) -> None:
    with folder_with(folder / "d", x=np.eye(2), y=np.arange(2)) as source:
        settings: dict[str, Any] = dict(data="numpy", data_folders={"train": source})
        outcome = run(folder / "r", mirrored=True, **settings)  # one is trained, one is held out
    assert outcome.training.position.step == 2 and outcome.evaluation["samples"] == 1
    assert np.isfinite(losses(outcome)).all()


@case
def a_pretrained_network_learns_a_folder_of_images(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg"
    )
    base.save_weights(folder / "base.weights.h5")
    settings: dict[str, Any] = dict(data="images", image_size=32, batch_size=4)
    settings |= {"data_folders": {"train": folder / "images"}, "epochs": 1}
    weights = str(folder / "base.weights.h5")
    transfer = run(folder / "1", model="transfer", weights=weights, learning_rate=0.1, **settings)
    kept = zip(transfer.weights[:-2], base.get_weights(), strict=True)
    assert all((np.asarray(weight) == other).all() for weight, other in kept), "the base has moved"
    assert np.abs(transfer.weights[-1]).max() > 0, "the new layer has not learned"
