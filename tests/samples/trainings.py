"""Trainings in one process.

The CPU is cut into two devices, so that `mirrored` has two replicas: import this before TensorFlow
computes anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import tensorflow as tf
from standins.case_runner import replaced

from training import job, process, train
from training.config import resolve
from training.data.uri import DataSource
from training.evaluation.exported import evaluate_exported
from training.registry import MODELS
from training.results import Records
from training.strategies import distributed

(CPU,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)
DEFAULTS: dict[str, Any] = dict(
    data="synthetic", model="linear", synthetic_samples=200, shift=0, epochs=2, batch_size=16,
    learning_rate=0.01, checkpoint_minutes=0.0, export="off",
)  # fmt: skip
# One of each: a second MirroredStrategy of a process uses the keys of the first one's collectives.
MIRRORED = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
ALONE = tf.distribute.OneDeviceStrategy("cpu:0")


class Killed(Exception):
    """Stands for a kill right after a checkpoint."""


def prepared(
    folder: Path, *, mirrored: bool = False, out: io.StringIO | None = None, **settings: Any
) -> train.Training:
    """A training that has not begun."""
    extra = {name: settings.pop(name) for name in ("data_folders", "resume") if name in settings}
    folder.mkdir(parents=True, exist_ok=True)
    chosen = job.Job(
        strategy="mirrored" if mirrored else "one-device",
        config=resolve({**DEFAULTS, **settings}),
        results=folder,
        data={
            name: place if isinstance(place, DataSource) else DataSource(str(place))
            for name, place in extra.get("data_folders", {}).items()
        },
        checkpoints=folder / "checkpoints",
        resume=extra.get("resume", "auto"),
    )
    keras.utils.clear_session(free_memory=False)  # to collect garbage takes 0.3 s
    keras.mixed_precision.set_global_policy(chosen.config.precision)
    strategy = distributed.Distributed(MIRRORED if mirrored else ALONE)
    return train.Training(strategy, chosen, Records(local_rank=0, out=out or io.StringIO()))


def run(folder: Path, *, kill_at: int = 0, mirrored: bool = False, **settings: Any) -> Any:
    """One training; `kill_at` ends it right after the checkpoint of that step."""
    out = io.StringIO()
    training = prepared(folder, mirrored=mirrored, out=out, **settings)
    save = training._save

    def save_and_die() -> None:
        save()
        if kill_at and training.position.step == kill_at:
            raise Killed

    training.__dict__["_save"] = save_and_die
    line = training.announcement(training.job.strategy)
    start = values(training.model)
    try:
        training.run()
    except Killed:
        pass
    finally:
        keras.mixed_precision.set_global_policy("float32")
    records = [json.loads(x.partition(" ")[2]) for x in out.getvalue().splitlines()]
    return SimpleNamespace(
        line=line,
        epochs=[record for record in records if record["kind"] == "epoch"],
        validations=[record for record in records if record["kind"] == "validation"],
        messages=[record["text"] for record in records if record["kind"] == "message"],
        evaluation=json.loads((folder / "evaluation.json").read_text()) if not kill_at else {},
        start=start,
        weights=values(training.model),
        training=training,
        folder=folder,
    )


def evaluated(folder: Path, exported: Path, **changes: Any) -> dict[str, Any]:
    """evaluation.json of an exported model."""
    data = {name: DataSource(str(path)) for name, path in changes.pop("data_folders", {}).items()}
    chosen = job.Job(
        strategy="one-device", config=resolve({**DEFAULTS, **changes}), results=folder, data=data,
        model=exported,
    )  # fmt: skip
    with replaced(process, prepare=lambda job: None):  # TensorFlow runs already
        evaluate_exported(chosen, Records(local_rank=0, out=io.StringIO()))
    found: dict[str, Any] = json.loads((folder / "evaluation.json").read_text())
    return found


def values(model: Any) -> list[Any]:
    """Copies of the weights of a model, as arrays."""
    return [np.array(variable) for variable in model.weights]


def moved(outcome: Any) -> float:
    """How far the weights of a training are from where they started."""
    changes = [end - start for start, end in zip(outcome.start, outcome.weights, strict=True)]
    return float(np.sqrt(sum((change**2).sum() for change in changes)))


def cut(source: Path, folder: Path, *steps: int) -> None:
    """Make the folder of a killed training: of the checkpoints of `source`, those of `steps`."""
    for step in steps:
        name = f"checkpoints/step-{step:08d}"
        shutil.copytree(source / name, folder / name)


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """The same weights, to float tolerance."""
    for one, other in zip(found.weights, wanted.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


def losses(outcome: Any) -> list[list[float]]:
    return [[record["loss"], record["val_loss"]] for record in outcome.epochs]


@contextlib.contextmanager
def own_model(build: Callable[..., Any]) -> Iterator[None]:
    """`build` is that of model `linear`, as if it stood in a module of training/models."""
    module = ModuleType("own_model")
    module.build = build  # type: ignore[attr-defined]
    module.__file__ = build.__code__.co_filename
    with patch.dict(sys.modules, own_model=module), patch.dict(MODELS, linear="own_model"):
        yield


@contextlib.contextmanager
def folder_with(folder: Path, **arrays: Any) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "d.npz", **arrays)
    yield folder
