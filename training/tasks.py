"""What is learned: a task defines the outputs of the model, the loss and the metrics.

A new task is one class here and one line in TASKS. Importing this needs the standard library only.

A tally is a float32 vector of sums over samples: [losses, samples, first metric, ...]. Sums of all
replicas and steps add up to exact means, whatever the sizes of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Task(Protocol):
    """Computes one number per sample from the labels and outputs of a batch."""

    metric: str  # name of the metric beside the loss
    label_type: str  # numpy type of the labels
    label_rank: int  # dimensions of the labels: 1 for [samples], 2 for [samples, classes]

    def outputs(self, classes: int) -> int:
        """How many outputs the model needs."""

    def losses(self, labels: Any, outputs: Any) -> Any:
        """The loss of each sample, float32 [batch]."""

    def scores(self, labels: Any, outputs: Any) -> Any:
        """The metric of each sample, float32 [batch]."""

    def predictions(self, outputs: Any) -> Any:
        """The predicted class of each sample, int64 [batch]; None if there are no classes."""

    def probabilities(self, outputs: Any) -> Any:
        """What further metrics get: [batch, outputs], probabilities if there are classes."""

    def check_labels(self, low: float, high: float, whole: bool, classes: int) -> str:
        """Why labels from `low` to `high` do not fit; empty if they do."""


@dataclass(frozen=True)
class Classification:
    """One of several classes; labels are 0 to classes - 1, outputs are logits [batch, classes].

    `smoothing` is the part of each label that all classes share evenly.
    """

    metric = "accuracy"
    label_type = "int64"
    label_rank = 1
    smoothing: float = 0.0

    def outputs(self, classes: int) -> int:
        return classes

    def losses(self, labels: Any, outputs: Any) -> Any:
        import keras
        import tensorflow as tf

        if not self.smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        expected = tf.one_hot(labels, tf.shape(outputs)[-1])
        return keras.losses.categorical_crossentropy(
            expected, outputs, from_logits=True, label_smoothing=self.smoothing
        )

    def scores(self, labels: Any, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.cast(self.predictions(outputs) == labels, tf.float32)

    def predictions(self, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.argmax(outputs, axis=-1)

    def probabilities(self, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.nn.softmax(outputs)

    def check_labels(self, low: float, high: float, whole: bool, classes: int) -> str:
        if whole and low >= 0 and high < classes:
            return ""
        return (
            f"classification needs whole labels from 0 {f'to {classes - 1}' if classes else 'on'}"
        )


class Binary(Classification):
    """Yes or no; labels are 0 and 1, the output is one logit [batch, 1]."""

    def outputs(self, classes: int) -> int:
        return 1

    def losses(self, labels: Any, outputs: Any) -> Any:
        import tensorflow as tf

        expected = tf.cast(labels, tf.float32) * (1.0 - self.smoothing) + self.smoothing / 2
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=expected, logits=outputs[:, 0])

    def predictions(self, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.cast(outputs[:, 0] > 0, tf.int64)

    def probabilities(self, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.sigmoid(outputs)

    def check_labels(self, low: float, high: float, whole: bool, classes: int) -> str:
        return "" if whole and low >= 0 and high <= 1 else "binary needs labels 0 and 1"


@dataclass(frozen=True)
class MultiLabel:
    """Any number of classes per sample; labels are 0 and 1, outputs logits [batch, classes]. The
    metric is the part of the labels that are right."""

    metric = "binary_accuracy"
    label_type = "float32"
    label_rank = 2
    smoothing: float = 0.0

    def outputs(self, classes: int) -> int:
        return classes

    def losses(self, labels: Any, outputs: Any) -> Any:
        import keras

        return keras.losses.binary_crossentropy(
            labels, outputs, from_logits=True, label_smoothing=self.smoothing
        )

    def scores(self, labels: Any, outputs: Any) -> Any:
        import tensorflow as tf

        right = (outputs > 0) == (labels > 0)
        return tf.reduce_mean(tf.cast(right, tf.float32), axis=-1)

    def predictions(self, outputs: Any) -> Any:
        return None

    def probabilities(self, outputs: Any) -> Any:
        import tensorflow as tf

        return tf.sigmoid(outputs)

    def check_labels(self, low: float, high: float, whole: bool, classes: int) -> str:
        fits = whole and low >= 0 and high <= 1 and classes > 1
        return "" if fits else "multi-label needs labels 0 and 1 of two or more classes"


class Regression:
    """A number; the output is [batch, 1], the loss the squared, the metric the absolute error."""

    metric = "mae"
    label_type = "float32"
    label_rank = 1

    def outputs(self, classes: int) -> int:
        return 1

    def losses(self, labels: Any, outputs: Any) -> Any:
        return (outputs[:, 0] - labels) ** 2

    def scores(self, labels: Any, outputs: Any) -> Any:
        return abs(outputs[:, 0] - labels)

    def predictions(self, outputs: Any) -> Any:
        return None

    def probabilities(self, outputs: Any) -> Any:
        return outputs

    def check_labels(self, low: float, high: float, whole: bool, classes: int) -> str:
        return "" if abs(low) + abs(high) < float("inf") else "regression needs finite labels"


TASKS: dict[str, Callable[..., Task]] = {
    "classification": Classification,
    "binary": Binary,
    "multi-label": MultiLabel,
    "regression": Regression,
}


def task_of(name: str, smoothing: float = 0.0) -> Task:
    """The task of that name; only tasks with classes take a `smoothing`."""
    return TASKS[name](smoothing) if smoothing else TASKS[name]()


def metrics_of(name: str) -> list[str]:
    """The metrics of an evaluation that a threshold may name."""
    metric = task_of(name).metric
    means = ["precision", "recall", "f1"] if metric == "accuracy" else []
    return ["loss", metric, *means]


def names_of(classes: Sequence[str], labels: int) -> tuple[str, ...]:
    """The names of classes; numbers if the data has no names."""
    return tuple(classes) or tuple(str(number) for number in range(labels))
