"""One step: gradients of every replica's batch, their sum, one update.

A replica's loss is the sum over its samples divided by the samples of the whole step, so the sum
of all replicas' gradients is the gradient of the mean, whatever the sizes of their batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..config import TrainConfig
from ..strategies.protocol import Strategy
from ..tasks import Task
from ..variables import is_seed, moving, tensors_of
from .watch import Watch

SUMS = 3  # losses, samples, metric


def sums(losses: Any, scores: Any, weights: Any) -> Any:
    """A batch's sums, float32 [3]: losses, samples, metric."""
    # Padding counts as 0 even if its loss is not finite.
    counted = weights > 0
    parts = [tf.where(counted, losses, 0.0), weights, tf.where(counted, scores, 0.0)]
    return tf.stack([tf.reduce_sum(values) for values in parts])


class Step:
    """The training step of one replica."""

    def __init__(
        self,
        strategy: Strategy,
        model: Any,
        optimizer: Any,
        task: Task,
        config: TrainConfig,
        *,
        idle: bool = False,
        unit: float = 1.0,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`idle`: a replica may be without samples in a step. `unit` divides the loss whose
        gradients are taken. `report` gets messages."""
        self.strategy, self.model, self.optimizer = strategy, model, optimizer
        self.task, self.config, self.idle = task, config, idle
        self.unit = unit
        self.report = report
        self.unused: Sequence[str] = ()
        self.watch = Watch(model, optimizer)
        self.compute = self._gradients
        if config.xla == "on":
            self.compute = tf.function(self._gradients, jit_compile=True, autograph=False)

    def compile(self, feed: Any) -> Any:
        """All replicas' step as one graph; it returns float32 [3 + size + watched values]: sums,
        then for each replica and for each value how much of it is not finite."""
        return compiled(self.strategy, self._step, feed)

    def _step(self, batch: Any) -> Any:
        gradients, tally = self.compute(*batch)
        strategy = self.strategy
        faults = self.watch.faults(tally[0], gradients)
        bad = tf.one_hot(strategy.replica(), strategy.size) * tf.reduce_max(faults)
        gradients, tallies = strategy.reduce(gradients, tf.concat([tally, bad, faults], axis=0))
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs)
        return tallies

    def _gradients(
        self, inputs: Any, labels: Any, weights: Any, total: Any, factors: Any = None
    ) -> tuple[Any, Any]:
        """Gradients and sums of one replica's batch, computed in parts.

        Each part begins with the moving averages of the previous step, and their mean over the
        samples is kept: they move once per step, and not at all for a batch of padding.
        """
        parts = self.config.accumulation
        factors = self._factors(labels, factors)
        if parts == 1 and not self.idle:
            return self._part(inputs, labels, factors, weights, total)
        state = tensors_of(self.watch.state)
        before = [tf.identity(variable) for variable in state]
        gradients, tallies, after = [], [], []
        for index in range(parts):
            rows, counts = _rows(weights, index, parts)
            _assign(state, before if index else [])
            x, y, scales = (tf.gather(each, rows) for each in (inputs, labels, factors))
            of_part, sums_of_part = self._part(x, y, scales, counts, total)
            gradients.append(of_part)
            tallies.append(sums_of_part)
            samples = sums_of_part[1]
            after.append([samples * (now - old) for now, old in zip(state, before, strict=True)])
        tally = tf.add_n(tallies)
        moved = [tf.add_n(same) / tf.maximum(tally[1], 1.0) for same in zip(*after, strict=True)]
        _assign(state, [old + change for old, change in zip(before, moved, strict=True)])
        return [tf.add_n(same) for same in zip(*gradients, strict=True)], tally

    def _part(
        self, inputs: Any, labels: Any, factors: Any, weights: Any, total: Any
    ) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            outputs = tf.cast(self.model(inputs, training=True), tf.float32)
            losses = self.task.losses(labels, outputs) * factors
            loss = tf.reduce_sum(tf.where(weights > 0, losses, 0.0)) / total / self.unit
            if self.model.losses:  # regularizers count once per step
                more = tf.add_n([tf.cast(each, tf.float32) for each in self.model.losses])
                loss += more / self.strategy.size / self.config.accumulation
            if self.config.precision == "mixed_float16":
                loss = self.optimizer.scale_loss(loss)
        variables = self.model.trainable_variables
        gradients_or_none = tape.gradient(loss, tensors_of(variables))
        self._note_unused(
            [v.path for v, g in zip(variables, gradients_or_none, strict=True) if g is None]
        )
        gradients = [
            tf.zeros_like(v.value) if g is None else tf.convert_to_tensor(g)
            for v, g in zip(variables, gradients_or_none, strict=True)
        ]
        return gradients, sums(losses, self.task.scores(labels, outputs), weights)

    def _factors(self, labels: Any, factors: Any) -> Any:
        """The factor of each sample in the loss: its own times that of its class."""
        if factors is None:
            factors = tf.ones([tf.shape(labels)[0]])
        of_classes = self.config.factors_of_classes
        return factors * tf.gather(tf.constant(of_classes), labels) if of_classes else factors

    def _note_unused(self, paths: Sequence[str]) -> None:
        """While the graph is made: as Keras does, train the other weights and report that once."""
        if paths and not self.unused:
            self.unused = paths
            self.report(f"the loss does not depend on {', '.join(paths)}: not trained")


def _rows(weights: Any, index: int, parts: int) -> tuple[Any, Any]:
    """The rows of a part of a batch and their weights; one of weight 0 if there is none."""
    count = tf.shape(weights)[0]
    begin, end = index * count // parts, (index + 1) * count // parts
    rows = tf.range(begin, tf.maximum(end, begin + 1))
    return rows, tf.where(rows < end, tf.gather(weights, rows), 0.0)


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=False):
        variable.assign(value)


def compiled(strategy: Strategy, replica_step: Callable[[Any], Any], feed: Any) -> Any:
    """One step of all replicas as one graph."""
    return tf.function(
        lambda batch: strategy.run(replica_step, batch),
        input_signature=[feed.element_spec],
        autograph=False,
    )


def accumulation_note(model: Any, config: TrainConfig) -> str:
    """What makes a step in parts differ from a step at once; empty if nothing does."""
    kinds = {
        "moving averages take the statistics of each part": moving(model),
        "random layers draw for each part": [v for v in model.variables if is_seed(v)],
    }
    reasons = [reason for reason, variables in kinds.items() if variables]
    if config.accumulation == 1 or not reasons:
        return ""
    return (
        f"accumulation={config.accumulation}: {', and '.join(reasons)}; the result is not that of "
        "accumulation=1"
    )
