"""What a training leaves: exports, evaluations and curves."""

from __future__ import annotations

import json
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from samples.files import image_folder
from samples.trainings import cut, folder_with, run
from standins.case_runner import case, refused, replaced

from training.checkpoints.checkpoint import Checkpoints
from training.config import TrainConfig
from training.events import Events
from training.results import Progress


@case
def exports_give_the_same_outputs_and_hold_the_settings(folder: Path) -> None:
    outcome = run(folder, export="on", model="cnn", epochs=1)
    inputs = outcome.training.data.validation.values[:3]
    expected = outcome.training.model(inputs).numpy()
    loaded = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(loaded(inputs).numpy(), expected, atol=1e-5)
    served = tf.saved_model.load(str(folder / "saved_model"))
    np.testing.assert_allclose(served.serve(inputs).numpy(), expected, atol=1e-5)
    texts = [
        zipfile.ZipFile(folder / "model.keras").read("training.json"),
        (folder / "saved_model/assets.extra/training.json").read_bytes(),
    ]
    for text in texts:
        assert json.loads(text)["settings"]["model"] == "cnn"
        assert json.loads(text)["classes"][9] == "9"


@case
def the_best_epoch_is_exported_and_evaluated_after_early_stopping(folder: Path) -> None:
    """The validation data has the other labels: the first epoch is the best one."""
    generator = np.random.RandomState(0)
    x = generator.normal(size=(64, 4))
    level: dict[str, Any] = dict(decay="none", warmup_epochs=0.0, learning_rate=0.05)
    with (
        folder_with(folder / "t", x=x, y=(x[:, 0] > 0).astype(int)) as train,
        folder_with(folder / "v", x=x, y=(x[:, 0] < 0).astype(int)) as validation,
    ):
        settings: dict[str, Any] = dict(data="numpy", **level)
        settings["data_folders"] = {"train": train, "validation": validation}
        stopping: dict[str, Any] = {**settings, "epochs": 9, "early_stopping": 3}
        last = run(folder / "last", **stopping, restore_best="off")
        chosen = run(folder / "chosen", **settings, restore_best="on")
        keeping: dict[str, Any] = dict(checkpoint_steps=2, checkpoint_keep=99, global_batch=16)
        alone = run(folder / "alone", **keeping, **stopping)
        two = run(folder / "two", mirrored=True, **keeping, **stopping)
        averaged = run(folder / "averaged", **keeping, **stopping, ema=0.5)
        cut(folder / "alone", folder / "cut", 6)  # inside epoch 2
        cut(folder / "alone", folder / "short", 6)
        resumed = run(folder / "cut", checkpoint_steps=2, **stopping)
        short = run(folder / "short", checkpoint_steps=2, **{**stopping, "epochs": 1})
    with np.load(folder / "alone/checkpoints/step-00000004/state.npz") as stored:
        first = [stored[f"arr_{index}"] for index in range(len(alone.weights))]
    for outcome in (alone, two, resumed, short):
        assert_exported(outcome, first, alone.epochs[0]["val_loss"])
    assert_exported(last, last.weights, last.epochs[-1]["val_loss"])
    assert [len(outcome.epochs) for outcome in (alone, two, last)] == [4, 4, 4]
    assert "from step 6" in resumed.line and "from step 6" in short.line
    outcomes = (alone, two, averaged, resumed, chosen, last)
    assert [outcome.evaluation["epoch"] for outcome in outcomes] == [1, 1, 1, 1, 1, 4]
    assert last.evaluation["loss"] > alone.evaluation["loss"]
    np.testing.assert_allclose(
        averaged.evaluation["loss"], averaged.epochs[0]["val_loss"], rtol=1e-5
    )


def assert_exported(outcome: Any, weights: list[Any], loss: float) -> None:
    """The exported model has these weights, and the evaluation is that model's."""
    exported = keras.models.load_model(outcome.folder / "model.keras").get_weights()
    for first, second in zip(exported, weights, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)
    np.testing.assert_allclose(outcome.evaluation["loss"], loss, rtol=1e-5)


@case
def a_model_is_exported_before_test_data_is_read(folder: Path) -> None:
    image_folder(folder / "images", count=12)
    image_folder(folder / "test", count=12)
    whole = (folder / "test/bee/3.png").read_bytes()
    (folder / "test/bee/3.png").write_bytes(b"no image")
    settings: dict[str, Any] = dict(data="images", image_size=8, epochs=1, checkpoint_steps=2)
    settings["data_folders"] = {"train": folder / "images", "test": folder / "test"}
    with refused("test/bee/3.png is not an image"):
        run(folder / "r", **settings)
    weights = keras.models.load_model(folder / "r/model.keras").get_weights()
    newest, _ = Checkpoints(folder / "r/checkpoints").newest()
    assert newest is not None and newest.position.done
    np.testing.assert_array_equal(weights[0], newest.arrays[0])
    (folder / "test/bee/3.png").write_bytes(whole)
    assert run(folder / "r", **settings).evaluation["split"] == "test"


@case
def tables_are_for_regression_and_binary_too(folder: Path) -> None:
    generator = np.random.RandomState(0)
    x = generator.normal(size=(200, 4)) * [1, 100, 0.01, 5]
    with folder_with(folder / "r", x=x, y=x[:, 0] * 2 + 1) as source:
        settings: dict[str, Any] = dict(
            data="numpy", model="mlp", data_folders={"train": source}, epochs=15
        )
        outcome = run(folder / "1", task="regression", **settings)
        assert outcome.evaluation["mae"] < 1 and outcome.evaluation["accuracy"] is None
        assert outcome.epochs[-1]["val_mae"] == float(f"{outcome.evaluation['mae']:.6g}")
    with folder_with(folder / "b", x=x, y=(x[:, 0] > 0).astype(int)) as source:
        settings["data_folders"] = {"train": source, "test": source}
        outcome = run(folder / "2", task="binary", **settings)
        assert outcome.evaluation["accuracy"] > 0.9 and outcome.evaluation["split"] == "test"
        assert np.shape(outcome.evaluation["confusion"]) == (2, 2)
        assert outcome.evaluation["samples"] == 200


@case
def texts_are_learned(folder: Path) -> None:
    for name, word in (("neg", "bad"), ("pos", "good")):
        (folder / "t" / name).mkdir(parents=True)
        for number in range(40):
            (folder / "t" / name / f"{number}.txt").write_text(f"it was {word} and long {number}")
    settings: dict[str, Any] = dict(
        data="imdb", task="binary", model="text", text_length=16, vocabulary=500
    )
    outcome = run(
        folder / "r", data_folders={"train": folder / "t"}, epochs=15, mirrored=True, **settings
    )
    assert outcome.evaluation["accuracy"] == 1


@case
def curves_are_written_for_tensorboard(folder: Path) -> None:
    with replaced(Progress, INTERVAL=0.0):  # a report after each step
        outcome = run(folder, profile_from=3, profile_steps=2)
    (events,) = (folder / "tensorboard").glob("events.*")
    steps, values = defaultdict(list), {}
    for event in tf.compat.v1.train.summary_iterator(str(events)):
        for value in event.summary.value:
            steps[value.tag].append(event.step)
            values[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    every, ends = [*range(1, 27)], [13, 26]
    assert steps["loss"] == steps["learning_rate"] == every
    assert steps["samples_per_s"] == every[1:], "the first step compiles"
    assert steps["accuracy"] == steps["val_loss"] == ends
    for step, epoch in zip(ends, outcome.epochs, strict=True):
        for name in ("loss", "learning_rate"):
            np.testing.assert_allclose(values[name, step], epoch[name], rtol=1e-5)
    assert list((folder / "tensorboard/plugins/profile").glob("*/*.xplane.pb"))


@case
def curves_have_each_step_once_after_a_restart(folder: Path) -> None:
    """As TensorBoard 2.21.0 reads: by the names of files; each start of a session but the first
    removes what is not before it. Its data server goes by the order of steps."""
    for first, last, value in ((1, 101, 1.0), (50, 121, 2.0), (90, 131, 3.0)):
        events = Events(folder, 0, TrainConfig())
        for step in range(first, last):
            events.scalars(step, loss=value, accuracy=value)
        events.close(last)
        time.sleep(1.1)  # the names of files have seconds
    points: dict[str, dict[int, float]] = defaultdict(dict)
    started, count = False, 0
    for path in sorted((folder / "tensorboard").glob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            if event.session_log.status == tf.compat.v1.SessionLog.START:
                for curve in points.values() if started else ():
                    for step in [step for step in curve if step >= event.step]:
                        del curve[step]
                started = True
            for value in event.summary.value:
                count += value.tag == "loss" and event.step in points["loss"]
                points[value.tag][event.step] = float(tf.make_ndarray(value.tensor))
    assert count == 0, "a step was there already"
    expected = {**dict.fromkeys(range(1, 50), 1.0), **dict.fromkeys(range(50, 90), 2.0)}
    expected |= dict.fromkeys(range(90, 131), 3.0)
    assert points == {"loss": expected, "accuracy": expected}
