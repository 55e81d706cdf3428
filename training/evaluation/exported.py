"""Evaluate a model that was exported.

`python -m training --evaluate model.keras` does it in one process; on hosts it is a run.
"""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

from .. import keras_files, own
from ..data import splits
from ..data.splits import HeldOut
from ..export import SETTINGS
from ..job import Job
from ..process import work_together
from ..registry import MODELS
from ..results import MODEL, Evaluation, Records, TrainingError, judge
from ..strategies.protocol import Strategy
from ..tasks import task_of
from .evaluator import evaluator
from .write import write


def evaluate_exported(job: Job, records: Records) -> Evaluation | None:
    """Evaluate the model `job.model` together with the run's other processes.

    The result is None in a process that only serves others, such as a parameter server.

    Raises:
        TrainingError: the model does not load, or does not fit the data.
        DataError: the data is missing or wrong.
    """
    return work_together(job, records, lambda strategy, _: _evaluate(job, records, strategy))


def _evaluate(job: Job, records: Records, strategy: Strategy) -> Evaluation:
    path = exported_model(job)
    held_out = splits.held_out(
        job.config,
        job.data,
        names_in(path, "classes"),
        lambda text: records.emit("message", text=text),
        names_in(path, "columns"),
        tuple(map(float, names_in(path, "fill"))),
    )
    importlib.import_module(MODELS[job.config.model])  # it may register its own classes
    if job.config.augment:
        own.load("augment", job.config.augment)  # so may the module of its layers
    with strategy.scope():
        model = load(path)
    check_fit(model, held_out, job)
    task = task_of(job.config.task, job.config.label_smoothing)
    # A binary model has one output.
    classes = len(held_out.names) or max(2, int(model.output_shape[-1]))
    if strategy.rank == 0:
        count, source = len(held_out.samples), f"{held_out.split} data"
        records.emit("message", text=f"evaluating {path.name} on {count} samples of {source}")
    result = evaluator(strategy, model, held_out.samples, job.config, task, classes)()
    evaluation = judge(result.metrics, None, task.metric)
    if strategy.rank == 0:
        write(job, records, model, path, held_out, evaluation, result)
    return evaluation


def exported_model(job: Job) -> Path:
    """The .keras file of a job; a folder that was sent has one, under its own name."""
    assert job.model is not None
    sent = sorted(job.model.glob("*.keras")) if job.model.is_dir() else [job.model]
    path = sent[0] if len(sent) == 1 else job.model / MODEL
    if not path.is_file():
        raise TrainingError(f"there is no model {path}")
    return path


def load(path: Path) -> Any:
    """The model in a .keras file; TrainingError also for one that brings Python code."""
    try:
        return keras_files.load_model(path)
    except (ValueError, TypeError, OSError, KeyError, zipfile.BadZipFile) as error:
        reason = str(error).strip().splitlines()[0][:300]
        raise TrainingError(f"{path} does not load as a Keras model: {reason}") from None


def names_in(path: Path, key: str) -> tuple[str, ...]:
    """The names of the classes or columns that a model was trained with; () if it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(map(str, json.loads(archive.read(SETTINGS))[key]))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        return ()


def check_fit(model: Any, held_out: HeldOut, job: Job) -> None:
    """TrainingError if the data has other inputs, or more classes, than the model."""
    expected, shape = tuple(model.input_shape[1:]), held_out.samples.inputs.shape
    if len(expected) != len(shape) or any(
        a not in (None, b) for a, b in zip(expected, shape, strict=True)
    ):
        raise TrainingError(f"the model takes inputs {expected}, and the data has {shape}")
    task = task_of(job.config.task)
    classes, outputs = held_out.samples.check(task), int(model.output_shape[-1])
    if task.label_rank == 2 and classes != outputs:
        raise TrainingError(f"the model has {outputs} outputs, and the data {classes} classes")
    if task.metric == "accuracy" and task.outputs(classes) > outputs:
        raise TrainingError(f"the model has {outputs} outputs, and the data {classes} classes")
