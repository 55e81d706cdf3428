"""Evaluate a model on samples that it was not trained on.

Every replica takes its share and the sums are added up, rather than rank 0 taking all: the others
would only wait meanwhile, and sums of losses, metrics and samples add up to the exact mean whatever
the shares' lengths (a mean of the ranks' means would not).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from ..config import TrainConfig
from ..data.assignment import lanes_for
from ..input_pipeline import batches, next_batch, plan_for
from ..learning.step import SUMS, compiled, sums
from ..results import Metrics, ticker
from ..strategies.protocol import Strategy
from ..tasks import Task
from .metrics import MoreMetrics
from .scores import Counts, counts_of

MOST_CLASSES = 100  # of a confusion matrix (their square); for more, three counts per class


@dataclass(frozen=True)
class Result:
    """Means over all samples. `counts` of each class, [] without classes;
    `confusion[label][prediction]` counts, None without classes or with more than MOST_CLASSES.
    `more` are the metrics that the setting `metrics` names."""

    metrics: Metrics
    counts: Sequence[Counts]
    confusion: list[list[int]] | None
    more: Mapping[str, float] = field(default_factory=dict)


def metrics_of(tallies: Any) -> Metrics:
    """The means from these sums."""
    loss, samples, score = (float(value) for value in tallies[:SUMS])
    return Metrics(loss / samples, score / samples, round(samples))


def evaluator(
    strategy: Strategy, model: Any, samples: Any, config: TrainConfig, task: Task, classes: int
) -> Callable[[], Result]:
    """A function that evaluates the model as it is now; all processes must call it together.

    It raises DataError, which names the file or record, if samples cannot be read.

    Raises:
        ConfigError: a metric of the settings cannot be computed.
    """
    more = MoreMetrics(config, task, task.outputs(classes))
    lanes = lanes_for(strategy.size)
    batch = -(-config.batch_size * strategy.size // lanes) * lanes
    plan = plan_for(samples, config, replicas=strategy.size, global_batch=batch, training=False)
    classes = classes if task.metric == "accuracy" else 0
    feed = strategy.iterate(lambda replicas: batches(samples, plan, config, replicas))
    step = compiled(strategy, _replica_step(strategy, model, task, classes, more), feed)

    tick = ticker()

    def evaluate() -> Result:
        results = []
        for _ in range(plan.steps):
            results.append(strategy.call(step, next_batch(feed, samples)))
            tick()
        tallies = sum(strategy.fetch(result).astype(np.float64) for result in results)
        last = SUMS + (classes**2 if classes <= MOST_CLASSES else 3 * classes)
        return replace(_result(tallies[:last], classes), more=more.results(tallies[last:]))

    return evaluate


def _result(tallies: Any, classes: int) -> Result:
    """The result from these sums: first those of the metrics, then those of the classes."""
    metrics, counts = metrics_of(tallies), tallies[SUMS:].astype(int)
    if classes > MOST_CLASSES:
        return Result(metrics, [Counts(*row) for row in counts.reshape(3, -1).T.tolist()], None)
    confusion = counts.reshape(classes, classes).tolist()
    return Result(metrics, counts_of(confusion), confusion or None)


def _replica_step(
    strategy: Strategy, model: Any, task: Task, classes: int, more: MoreMetrics
) -> Callable[[Any], Any]:
    def replica_step(batch: Any) -> Any:
        inputs, labels, weights, _, *factors = batch
        outputs = tf.cast(model(inputs, training=False), tf.float32)
        losses = task.losses(labels, outputs) * (factors[0] if factors else 1.0)
        tally = sums(losses, task.scores(labels, outputs), weights)
        if classes:
            counts = _class_sums(labels, task.predictions(outputs), weights, classes)
            tally = tf.concat([tally, tf.reshape(counts, [-1])], axis=0)
        tally = tf.concat([tally, more.sums(labels, outputs, weights)], axis=0)
        return strategy.reduce([], tally)[1]

    return replica_step


def _class_sums(labels: Any, predictions: Any, weights: Any, classes: int) -> Any:
    """The confusion matrix of a batch, float32; for more classes their `Counts`, [3, classes]."""
    if classes <= MOST_CLASSES:
        return tf.math.confusion_matrix(labels, predictions, classes, weights, tf.float32)
    right = weights * tf.cast(labels == predictions, tf.float32)
    pairs = ((weights, labels), (weights, predictions), (right, labels))
    return tf.stack([tf.math.unsorted_segment_sum(*pair, classes) for pair in pairs])
