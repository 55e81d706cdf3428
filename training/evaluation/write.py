"""The output of every evaluation: evaluation.json, the worst pictures, a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..data.shards.manifest import sha256_of
from ..data.splits import HeldOut
from ..job import Job
from ..results import Evaluation, Records, write_evaluation
from ..tasks import names_of, task_of
from .evaluator import Result
from .scores import means, per_class
from .worst import write_worst


def write(
    job: Job,
    records: Records,
    model: Any,
    exported: Path,
    held_out: HeldOut,
    evaluation: Evaluation,
    result: Result,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write evaluation.json, with `more` in it, and the worst pictures; emit the record
    `evaluation`."""
    task, samples = task_of(job.config.task), held_out.samples
    names = names_of(held_out.names, len(result.counts))
    score = {} if task.metric == "accuracy" else {task.metric: result.metrics.score}
    classes = per_class(result.counts, names)
    figures: dict[str, Any] = {**score, **means(classes), **result.more}
    if missing := [item["class"] for item in classes if not item["samples"]]:
        figures["missing_classes"] = missing
    values: dict[str, Any] = {"split": held_out.split, **(more or {}), **figures}
    if result.confusion:
        values |= {"classes": list(names), "confusion": result.confusion, "per_class": classes}
    values |= write_worst(model, samples, job.config, task, names, job.results)
    values |= {"model": sha256_of(exported), "data": samples.digest()}
    write_evaluation(evaluation, job.results, **values)
    records.emit("evaluation", **asdict(evaluation), **figures)
