"""What a training has in common with Keras' `fit`: on two replicas, with an uneven last batch, it
makes the weights and figures that `fit` makes on one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers
from samples.fits import (
    CLASSES,
    HELD_OUT,
    LEVEL,
    TABLES,
    TRAIN,
    assert_history,
    assert_weights,
    fitted,
    linear,
    trained,
)
from samples.trainings import cut, evaluated, folder_with, run, same
from standins.case_runner import case, refused


@case
def weights_losses_and_averages_are_those_of_fit(folder: Path) -> None:
    """Weight decay, averaged weights, smoothed labels and weighted classes, all at once."""
    settings: dict[str, Any] = dict(
        optimizer="adamw", weight_decay=0.2, ema=0.8, label_smoothing=0.1, class_weights="1,3 0.5",
        epochs=2, metrics="top_2,auc,samples.own_code:distance", checkpoint_steps=3,
        checkpoint_keep=99,
    )  # fmt: skip
    outcome = trained(folder / "whole", **settings)
    model = linear(outcome.start)
    history = fitted(
        model,
        keras.optimizers.AdamW(0.05, weight_decay=0.2, use_ema=True, ema_momentum=0.8),
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        epochs=2,
        class_weight={0: 1.0, 1: 3.0, 2: 0.5},
        callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=False)],
    )
    assert_history(outcome, history)
    assert_weights(outcome, model)
    exported = keras.models.load_model(folder / "whole/model.keras")
    for first, second in zip(exported.get_weights(), outcome.weights, strict=True):
        np.testing.assert_array_equal(first, second)
    assert_further_metrics(outcome, model, settings)
    cut(folder / "whole", folder / "cut", 6)  # the first step of epoch 2
    same(trained(folder / "cut", **settings), outcome, 1e-7)


def assert_further_metrics(outcome: Any, model: Any, settings: Any) -> None:
    x, y = HELD_OUT
    shares = keras.ops.softmax(model(x))
    top = keras.metrics.SparseTopKCategoricalAccuracy(2)
    area = keras.metrics.AUC(multi_label=True)
    expected = {"top_2": top(y, shares), "auc": area(np.eye(CLASSES)[y], shares)}
    expected["distance"] = 1 - np.asarray(shares)[np.arange(len(y)), y].mean()
    again = evaluated(
        outcome.folder / "again",
        outcome.folder / "model.keras",
        data_folders={"test": outcome.folder.parent / "validation"},
        **{**LEVEL, **settings},
    )
    for name, value in expected.items():
        for scores in (outcome.evaluation[name], outcome.epochs[-1][f"val_{name}"], again[name]):
            np.testing.assert_allclose(scores, float(value), rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(again["loss"], outcome.evaluation["loss"], rtol=1e-6)


@case
def a_binary_task_has_the_loss_of_fit(folder: Path) -> None:
    x, labels = TRAIN[0], TRAIN[1] % 2
    settings: dict[str, Any] = dict(task="binary", label_smoothing=0.2, class_weights="1,4")
    with folder_with(folder / "d", x=x, y=labels) as source:
        sources = {"train": source, "validation": source}
        settings |= {**LEVEL, "optimizer": "sgd", "metrics": "auc,Precision", "steps": 1}
        outcome = run(folder / "r", data_folders=sources, mirrored=True, **settings, epochs=1)
    logits = outcome.training.model(x).numpy()
    loss = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)
    np.testing.assert_allclose(
        outcome.evaluation["loss"], float(loss(labels[:, None], logits)), rtol=1e-5
    )
    shares = 1 / (1 + np.exp(-logits))
    for name, metric in (("auc", keras.metrics.AUC()), ("Precision", keras.metrics.Precision())):
        value = float(metric(labels[:, None], shares))
        np.testing.assert_allclose(outcome.evaluation[name], value, rtol=1e-5, err_msg=name)


@case
def a_rate_that_is_reduced_on_a_plateau_is_that_of_fit(folder: Path) -> None:
    """Also after a resume inside the epochs that are waited, and from an older checkpoint."""
    settings: dict[str, Any] = dict(
        optimizer="sgd", learning_rate=2.0, epochs=6, plateau_epochs=1, plateau_factor=0.3,
        checkpoint_steps=5, checkpoint_keep=99,
    )  # fmt: skip
    whole = trained(folder / "whole", **settings)
    model = linear(whole.start)
    reducing = keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.3)
    history = fitted(model, keras.optimizers.SGD(2.0, momentum=0.9), epochs=6, callbacks=[reducing])
    assert_history(whole, history)
    rates = [epoch["learning_rate"] for epoch in whole.epochs]
    # fit writes the rate down before it is reduced
    np.testing.assert_allclose([2.0, *rates[:-1]], history["learning_rate"], rtol=1e-5)
    assert rates[-1] < 0.5, "the data must make it reduce the rate twice"
    cut(folder / "whole", folder / "cut", 20)
    same(trained(folder / "cut", **settings), whole, 1e-7)
    cut(folder / "whole", folder / "older", 5)
    manifest = folder / "older/checkpoints/step-00000005/manifest.json"
    document = json.loads(manifest.read_text())
    for name in ("rate_scale", "stopped"):
        del document["position"][name]
    for name in ("ema", "unfreeze_epochs", "plateau_epochs", "class_weights", "metrics"):
        del document["settings"][name]
    manifest.write_text(json.dumps(document))
    same(trained(folder / "older", **settings), whole, 1e-7)


def frozen(inputs: Any, outputs: int, config: Any) -> Any:
    base = keras.Sequential(
        [layers.Input(inputs.shape), layers.Dense(5), layers.BatchNormalization()], name="base"
    )
    base.trainable = False
    return keras.Sequential([layers.Input(inputs.shape), base, layers.Dense(outputs)])


@case
def frozen_layers_are_trained_in_a_second_phase_as_by_a_second_fit(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        optimizer="adam", epochs=3, unfreeze_epochs=1, unfreeze_rate=0.2, ema=0.5,
        checkpoint_steps=5, checkpoint_keep=99, build=frozen,
    )  # fmt: skip
    whole = trained(folder / "whole", **settings)
    for step in (5, 10):
        cut(folder / "whole", folder / f"cut-{step}", step)
        same(trained(folder / f"cut-{step}", **settings), whole, 1e-7)
    model = frozen(whole.training.data.inputs, CLASSES, None)
    model.set_weights(whole.start)
    average: dict[str, Any] = dict(use_ema=True, ema_momentum=0.5)
    fitted(model, keras.optimizers.Adam(0.05, **average), epochs=1)
    base = model.get_layer("base")
    base.trainable, base.layers[-1].trainable = True, False
    fitted(model, keras.optimizers.Adam(0.01, **average), first=1, epochs=2)
    assert_weights(whole, model)
    changed = [bool((a != b).any()) for a, b in zip(whole.start, whole.weights, strict=True)]
    assert changed == [True, True, False, False, False, False, True, True]


@case
def several_labels_and_a_factor_per_sample_count_as_in_fit(folder: Path) -> None:
    generator = np.random.RandomState(2)
    tables = [(x, (x[:, :CLASSES] + generator.normal(size=(len(x), CLASSES)) > 0) * 1)
              for x, _ in TABLES]  # fmt: skip
    settings: dict[str, Any] = dict(
        task="multi-label",
        optimizer="sgd",
        epochs=2,
        label_smoothing=0.1,
        metrics="auc",
        sample_weights="w",
        accumulation=2,
    )
    outcome = trained(folder / "r", tables, **settings)
    model = linear(outcome.start)
    history = fitted(
        model,
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
        epochs=2,
        tables=tables,
        weighted=True,
        metric=keras.metrics.BinaryAccuracy(threshold=0.0),
    )
    assert_history(outcome, history, "binary_accuracy")
    assert_weights(outcome, model)
    shares = keras.ops.sigmoid(model(tables[1][0]))
    area = float(keras.metrics.AUC(multi_label=True)(tables[1][1], shares))
    places = {"test": folder / "validation"}
    again = evaluated(
        folder / "again", folder / "r/model.keras", data_folders=places, **{**LEVEL, **settings}
    )
    for evaluation in (outcome.evaluation, again):
        np.testing.assert_allclose(evaluation["auc"], area, rtol=1e-5)
        right = (model(tables[1][0]).numpy() > 0) == (tables[1][1] > 0)
        np.testing.assert_allclose(evaluation["binary_accuracy"], right.mean(), rtol=1e-6)
        assert evaluation["accuracy"] is None and "confusion" not in evaluation
    with refused("train has no v, as sample_weights needs it"):
        trained(folder / "bad", tables, **{**settings, "sample_weights": "v"})
    for labels in (tables[0][1] * 2, tables[0][1][:, :1], TRAIN[1]):
        with refused("label"):
            trained(folder / "bad", [(TRAIN[0], labels), tables[1]], **settings)
