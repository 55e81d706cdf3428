"""Evaluate a model that was exported, and write what every evaluation leaves.

`python -m training --evaluate model.keras` does it alone; on hosts it is a run like a training.
"""

from __future__ import annotations

import gc
import hashlib
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

from training import strategies
from training.data import splits
from training.data.splits import HeldOut
from training.evaluate import Result, evaluator
from training.export import SETTINGS
from training.job import Job
from training.process import prepare
from training.results import MODEL, Evaluation, Records, TrainingError, judge, write_evaluation
from training.scores import means, per_class
from training.tasks import names_of, task_of
from training.worst import write_worst


def evaluate_exported(job: Job, records: Records) -> Evaluation | None:
    """Evaluate the model `job.model` together with the run's other processes.

    The result is None in a process that only serves others, such as a parameter server.

    Raises:
        TrainingError: the model does not load, or does not fit the data.
        DataError: the data is missing or wrong.
    """
    prepare(job)
    name, _ = strategies.settle(job)
    if strategies.serves(name):
        from training.strategies.parameter_server import serve

        serve()
        return None
    path = exported_model(job)
    held_out = splits.held_out(
        job.config, job.data, names_in(path), lambda text: records.emit("message", text=text)
    )
    strategy = strategies.join(name, job)
    with strategy.scope():
        model = load(path)
    check_fit(model, held_out, job)
    task = task_of(job.config.task)
    # A binary model has one output.
    classes = len(held_out.names) or max(2, int(model.output_shape[-1]))
    if strategy.rank == 0:
        count, source = len(held_out.samples), f"{held_out.split} data"
        records.emit("message", text=f"evaluating {path.name} on {count} samples of {source}")
    run = evaluator(strategy, model, held_out.samples, job.config, task, classes)
    result = run()
    evaluation = judge(result.metrics, None, task.metric)
    if strategy.rank == 0:
        write(job, records, model, path, held_out, evaluation, result)
    strategy.close()
    del run, model
    gc.collect()  # iterators: TensorFlow warns of those that are left at the interpreter's end
    return evaluation


def exported_model(job: Job) -> Path:
    """The .keras file of a job; a folder is searched for model.keras."""
    assert job.model is not None
    path = job.model / MODEL if job.model.is_dir() else job.model
    if not path.is_file():
        raise TrainingError(f"there is no model {path}")
    return path


def load(path: Path) -> Any:
    """The model in a .keras file; TrainingError also for one that brings Python code."""
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except (ValueError, TypeError, OSError, KeyError, zipfile.BadZipFile) as error:
        reason = str(error).strip().splitlines()[0][:300]
        raise TrainingError(f"{path} does not load as a Keras model: {reason}") from None


def names_in(path: Path) -> tuple[str, ...]:
    """The names of the classes that a model was trained with; () where it has none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(map(str, json.loads(archive.read(SETTINGS))["classes"]))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        return ()


def check_fit(model: Any, held_out: HeldOut, job: Job) -> None:
    """TrainingError if the data has other inputs, or more classes, than the model."""
    wanted, shape = tuple(model.input_shape[1:]), held_out.samples.inputs.shape
    if len(wanted) != len(shape) or any(
        a not in (None, b) for a, b in zip(wanted, shape, strict=True)
    ):
        raise TrainingError(f"the model takes inputs {wanted}, and the data has {shape}")
    task = task_of(job.config.task)
    classes, outputs = held_out.samples.check(task), int(model.output_shape[-1])
    if task.metric == "accuracy" and task.outputs(classes) > outputs:
        raise TrainingError(f"the model has {outputs} outputs, and the data {classes} classes")


def write(
    job: Job,
    records: Records,
    model: Any,
    exported: Path,
    held_out: HeldOut,
    evaluation: Evaluation,
    result: Result,
) -> None:
    """Write evaluation.json and the worst pictures, and emit the record `evaluation`."""
    task, samples = task_of(job.config.task), held_out.samples
    names = names_of(held_out.names, len(result.counts))
    own = {} if task.metric == "accuracy" else {task.metric: result.metrics.score}
    classes = per_class(result.counts, names)
    figures = {**own, **means(classes)}
    more: dict[str, Any] = {"split": held_out.split, **figures}
    if result.confusion:
        more |= {"classes": list(names), "confusion": result.confusion, "per_class": classes}
    more |= write_worst(model, samples, job.config, task, names, job.results)
    more |= {"model": digest_of(exported), "data": samples.digest()}
    write_evaluation(evaluation, job.results, **more)
    records.emit("evaluation", **asdict(evaluation), **figures)


def digest_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
