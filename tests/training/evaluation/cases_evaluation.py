"""Evaluation of an exported model, with the data of its training and with new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from samples.trainings import DEFAULTS, evaluated, folder_with, run
from standins.case_runner import case, refused

from training.evaluation.exported import load
from training.serving import client
from training.serving import model as serving


@case
def an_exported_model_has_the_evaluation_of_its_training(folder: Path) -> None:
    trained = run(folder / "run", data="digits").evaluation
    report = evaluated(folder / "again", folder / "run/model.keras", data="digits")
    for name in ("confusion", "per_class", "model", "data", "split", "samples"):
        assert report[name] == trained[name], name
    assert abs(report["loss"] - trained["loss"]) < 1e-5
    assert sum(map(sum, report["confusion"])) == report["samples"] == 360
    wrong = 360 - sum(row[i] for i, row in enumerate(report["confusion"]))
    assert len(report["worst"]) == min(wrong, 12) and report["worst_of"] == 360
    losses = [item["loss"] for item in report["worst"]]
    assert losses == sorted(losses, reverse=True)
    picture = folder / "again" / report["worst"][0]["picture"]
    assert picture.read_bytes()[1:4] == b"PNG"


@case
def new_data_needs_no_training_data(folder: Path) -> None:
    run(folder / "run")
    model, shape = folder / "run/model.keras", (12, 8, 8, 1)
    labels = np.arange(12) % 10
    with folder_with(folder / "new", x=np.zeros(shape, np.float32), y=labels) as new:
        report = evaluated(
            folder / "e", model, data="numpy", data_folders={"test": new, "train": folder / "none"}
        )
    assert (report["samples"], report["split"]) == (12, "test")
    others = {
        "the model takes inputs": (np.zeros((12, 8, 9, 1), np.float32), labels),
        "the model has 10 outputs": (np.zeros(shape, np.float32), labels + 9),
    }
    for number, (message, (x, y)) in enumerate(others.items()):
        with folder_with(folder / f"other-{number}", x=x, y=y) as other, refused(message):
            evaluated(folder / "e", model, data="numpy", data_folders={"test": other})


@case
def a_table_with_other_columns_than_the_model_is_refused(folder: Path) -> None:
    for name in ("a,b", "b,c"):
        (folder / f"{name}.csv").write_text(f"{name},label\n" + "1,2,x\n3,4,y\n" * 8)
    settings: dict[str, Any] = dict(data="csv", epochs=1)
    run(folder / "run", data_folders={"train": folder / "a,b.csv"}, **settings)
    model, wrong = (
        folder / "run/model.keras",
        "b,c.csv has the columns b, c, but its inputs must be a, b",
    )
    same = evaluated(folder, model, data_folders={"test": folder / "a,b.csv"}, **settings)
    assert same["samples"] == 16
    with refused(wrong):
        evaluated(folder, model, data_folders={"test": folder / "b,c.csv"}, **settings)


@case
def a_model_that_does_not_load_is_named(folder: Path) -> None:
    (folder / "torn.keras").write_bytes(b"PK nothing")
    for name, message in (("torn.keras", "does not load"), ("none.keras", "there is no model")):
        with refused(message, name):
            evaluated(folder / "e", folder / name, data="digits")


@case
def a_model_that_brings_python_code_is_refused(folder: Path) -> None:
    """It may come from a host: neither the evaluation nor the server runs its code."""
    code = keras.layers.Lambda(lambda x: x * 2)
    keras.Sequential([keras.Input((2,)), code]).save(folder / "model.keras")
    with refused("does not load", "Lambda"):
        load(folder / "model.keras")
    try:
        serving.load(folder)
    except serving.ModelError as error:
        assert "Lambda" in str(error)
    else:
        raise AssertionError("the server loaded it")


@case
def every_task_is_evaluated_as_it_was_trained(folder: Path) -> None:
    x = np.random.RandomState(0).normal(size=(80, 4))
    labels = {"regression": x[:, 0] * 2, "binary": (x[:, 0] > 0).astype(int)}
    for task, y in labels.items():
        with folder_with(folder / f"data-{task}", x=x, y=y) as source:
            settings: dict[str, Any] = dict(
                data="numpy", model="mlp", task=task, data_folders={"train": source}
            )
            trained = run(folder / task, **settings).evaluation
            report = evaluated(folder / f"{task}-again", folder / task / "model.keras", **settings)
        metric = "mae" if task == "regression" else "accuracy"
        assert abs(report[metric] - trained[metric]) < 1e-5, task
        assert report["data"] == trained["data"] and report.get("confusion") == trained.get(
            "confusion"
        )
        assert ("precision" in report) == (task == "binary") and "worst" not in report
        plain = folder / f"{task}.keras"  # without the names of its classes
        load(folder / task / "model.keras").save(plain)
        assert evaluated(folder / f"{task}-plain", plain, **settings).get("f1") == report.get("f1")


@case
def predicted_samples_are_those_of_the_evaluation(folder: Path) -> None:
    """Test data where there is some, as in evaluation.json; else validation data. A folder's labels
    say which it is."""
    calls = []
    for label, name in enumerate(("train", "validation", "test")):
        x = np.full((12, 8, 8, 1), label / 4, np.float32)
        y = np.arange(12) % 3 if name == "train" else np.full(12, label)
        with folder_with(folder / name, x=x, y=y) as source:
            calls.append(f"{name}={source}")
    settings = {**DEFAULTS, "data": "numpy"}
    for data, split in ((calls, "test"), (calls[:2], "validation")):
        report = client.held_out(5, settings, data)
        label = ("train", "validation", "test").index(split)
        assert list(report.labels or ()) == [label] * 5, split
        assert np.asarray(report.instances).shape == (5, 8, 8, 1)
        assert np.all(np.asarray(report.instances) == label / 4), split
