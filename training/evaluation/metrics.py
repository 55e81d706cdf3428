"""Further metrics of an evaluation: Keras' own, or those of a module.

The state of a metric is a sum over samples: each replica adds its batch to an empty state, and the
states of all replicas and steps add up, whatever the sizes of the batches. A metric whose state
does not add up is refused.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..config import TOP, ConfigError, TrainConfig, metric_name
from ..own import load
from ..tasks import Task

EXAMPLE = 8  # rows with which a metric is tried
HALVES = (slice(None, EXAMPLE // 2), slice(EXAMPLE // 2, None))


class MoreMetrics:
    """The metrics that the settings name; their sums are one vector, float32."""

    def __init__(self, config: TrainConfig, task: Task, outputs: int) -> None:
        """`outputs`: those of the model. ConfigError for a metric that cannot be computed."""
        self.task, self.outputs = task, outputs
        self.metrics = {metric_name(text): self._made(text) for text in config.more_metrics}
        for name, metric in self.metrics.items():
            self._try(name, metric)

    def sums(self, labels: Any, outputs: Any, weights: Any) -> Any:
        """The states from a batch, one after the other; rows of weight 0 do not count."""
        outputs = tf.where(weights[:, None] > 0, outputs, 0.0)  # padding need not be finite
        states = [self._state(each, labels, outputs, weights) for each in self.metrics.values()]
        return tf.concat([tf.zeros([0]), *states], axis=0)

    def results(self, sums: Any) -> dict[str, float]:
        """The value of each metric, from the sums of all batches."""
        sizes = [sum(_sizes(metric)) for metric in self.metrics.values()]
        parts = np.split(sums, np.cumsum(sizes))
        return {
            name: float(_result(metric, values))
            for (name, metric), values in zip(self.metrics.items(), parts, strict=False)
        }

    def _made(self, text: str) -> Any:
        """The metric of a name: as in Keras' `metrics`, a class, an object or a function."""
        if text == "auc":
            return _MeanArea(multi_label=True) if self.outputs > 1 else keras.metrics.AUC()
        if top := TOP.fullmatch(text):
            return keras.metrics.SparseTopKCategoricalAccuracy(int(top[1]))
        metric = load("metrics", text) if ":" in text else getattr(keras.metrics, text, None)
        if inspect.isclass(metric):
            metric = metric()
        if isinstance(metric, keras.metrics.Metric):
            return metric
        if not inspect.isfunction(metric):
            choices = "top_K, auc, the name of a metric of Keras or module:name"
            raise ConfigError(f"metrics: {text} is not {choices}")
        return keras.metrics.MeanMetricWrapper(metric, name=metric_name(text))

    def _state(self, metric: Any, labels: Any, outputs: Any, weights: Any) -> Any:
        before = [tf.zeros(v.shape, v.dtype) for v in metric.variables]
        values = self.task.probabilities(outputs)
        state = metric.stateless_update_state(
            before, self._as_column(labels), values, sample_weight=weights
        )
        return tf.concat([tf.reshape(tf.cast(sums, tf.float32), [-1]) for sums in state], axis=0)

    def _as_column(self, labels: Any) -> Any:
        """Labels in the shape of one output, [batch, 1], as Keras' metrics expect them."""
        return labels[:, None] if self.outputs == 1 else labels

    def _try(self, name: str, metric: Any) -> None:
        """Compute it once: Keras makes some variables only then."""
        classes = np.arange(EXAMPLE) % max(2, self.outputs)
        values = classes if self.task.label_rank == 1 else np.eye(self.outputs)[classes]
        labels = tf.constant(values, self.task.label_type)
        outputs = np.random.RandomState(0).normal(size=(EXAMPLE, self.outputs))
        batch = (labels, tf.constant(outputs, tf.float32), tf.ones([EXAMPLE]))
        try:
            metric.update_state(self._as_column(labels), self.task.probabilities(batch[1]))
            metric.reset_state()
            # As a graph: TensorFlow warns of some operations that are called often outside of one.
            state = tf.function(lambda *batch: self._state(metric, *batch), autograph=False)
            whole = state(*batch)
            halves = [state(*(each[rows] for each in batch)) for rows in HALVES]
            value = _result(metric, whole.numpy())
        except Exception as error:  # Keras raises many kinds for labels that do not fit
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            raise ConfigError(f"metrics: {name} cannot be computed: {reason}") from error
        starts_empty = not any(np.any(variable) for variable in metric.variables)
        if not starts_empty or not np.allclose(sum(halves), whole, atol=1e-4):
            raise ConfigError(f"metrics: the state of {name} is not a sum over samples")
        if value.shape or value.dtype.kind not in "fiu":
            raise ConfigError(f"metrics: {name} must be one number, not {value.tolist()}")


class _MeanArea(keras.metrics.AUC):  # type: ignore[misc]
    """The mean over all classes of the area of each one against the others."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if len(y_true.shape) == 1:
            y_true = keras.ops.one_hot(y_true, y_pred.shape[-1])
        super().update_state(y_true, y_pred, sample_weight)


def _result(metric: Any, sums: Any) -> Any:
    """The value of a metric from its state, as one vector."""
    parts = np.split(sums, np.cumsum(_sizes(metric)))
    state = [
        tf.constant(np.reshape(values, variable.shape), variable.dtype)
        for variable, values in zip(metric.variables, parts, strict=False)
    ]
    return np.asarray(metric.stateless_result(state))


def _sizes(metric: Any) -> list[int]:
    """The number of values in each variable of a metric."""
    return [int(np.prod(variable.shape)) for variable in metric.variables]
