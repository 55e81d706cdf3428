"""Judge a model by the samples that were held out.

Every replica takes its shard and the sums are added up, rather than rank 0 taking all: the others
would only wait meanwhile, and sums of losses, hits and samples add up to the exact mean whatever
the shards' lengths (a mean of the ranks' means would not).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from training.config import TrainConfig
from training.data import Samples
from training.data.pipeline import batches, interleaved
from training.data.shards import held_out_batches
from training.results import Metrics
from training.strategies import Strategy

TALLIES = 3  # sum of losses, number of hits, number of samples


def tally(losses: Any, logits: Any, labels: Any, weights: Any) -> Any:
    """A batch's sums, float32 [3]: losses, hits, samples."""
    hits = tf.cast(tf.argmax(logits, axis=-1) == labels, tf.float32)
    parts = [losses * weights, hits * weights, weights]
    return tf.stack([tf.reduce_sum(part) for part in parts])


def metrics_of(tallies: Any) -> Metrics:
    """The means that these sums make."""
    loss, hits, samples = (float(value) for value in tallies)
    return Metrics(loss / samples, hits / samples, round(samples))


def evaluator(
    strategy: Strategy, model: Any, samples: Samples, config: TrainConfig
) -> Callable[[], Metrics]:
    """A function that evaluates the model as it is now; all processes must call it together."""

    def shard(replica: int) -> list[Any]:
        return held_out_batches(
            len(samples), size=strategy.size, rank=replica, batch_size=config.batch_size
        )

    def dataset(replicas: range) -> Any:
        return batches(samples, lambda: [interleaved([shard(replica) for replica in replicas])])

    feed = strategy.iterate(dataset)
    step = _compile(strategy, model, feed)
    steps = len(shard(0))

    def evaluate() -> Metrics:
        tallies = tf.zeros([TALLIES])
        for _ in range(steps):
            tallies += step(next(feed))
        return metrics_of(strategy.total(tallies))

    return evaluate


def _compile(strategy: Strategy, model: Any, feed: Any) -> Any:
    def replica_step(batch: Any) -> Any:
        images, labels, weights = batch
        logits = model(images, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tally(losses, logits, labels, weights)

    return tf.function(
        lambda batch: strategy.run(replica_step, batch),
        input_signature=[feed.element_spec],
        autograph=False,
    )
