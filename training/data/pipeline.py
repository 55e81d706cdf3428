"""From sample numbers to batches of tensors: tf.data over arrays that fit in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from training.data import Samples
from training.data.shards import PADDING

Batches = Iterable[Sequence[int]]


def batches(samples: Samples, epochs: Callable[[], Iterable[Batches]]) -> Any:
    """A tf.data.Dataset of (images, labels, weights), the epochs' batches one after another.

    `epochs` yields each epoch's batches of sample numbers; it is asked for one epoch at a time, so
    a long run holds one epoch's numbers. PADDING becomes an image of weight 0.
    """
    vector = tf.TensorSpec([None], tf.int64)
    numbers = tf.data.Dataset.from_generator(
        lambda: map(_flat, epochs()), output_signature=(vector, vector)
    )
    numbers = numbers.flat_map(
        lambda values, lengths: tf.data.Dataset.from_tensor_slices(
            tf.RaggedTensor.from_row_lengths(values, lengths)
        )
    )
    # Without an end: a strategy over several workers asks all of them before each step of a finite
    # data set whether any has run dry. The loop counts its steps itself.
    return numbers.repeat().map(_gather(samples)).prefetch(2).with_options(_options())


def _flat(epoch: Batches) -> tuple[list[int], list[int]]:
    parts = list(epoch)
    return list(itertools.chain.from_iterable(parts)), [len(part) for part in parts]


def _gather(samples: Samples) -> Callable[[Any], tuple[Any, Any, Any]]:
    with tf.device("cpu"):  # the whole set stays in host memory; batches go to the GPU
        images, labels = tf.constant(samples.images), tf.constant(samples.labels)

    def gather(numbers: Any) -> tuple[Any, Any, Any]:
        weights = tf.cast(numbers != PADDING, tf.float32)
        present = tf.maximum(numbers, 0)
        return tf.gather(images, present), tf.gather(labels, present), weights

    return gather


def _options() -> Any:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = (
        1  # gathering rows is cheap; leave cores to the step
    )
    return options


def interleaved(replicas: Sequence[Sequence[Sequence[int]]]) -> Iterator[Sequence[int]]:
    """The replicas' batches in turn: tf.distribute hands a host's elements to its GPUs in turn."""
    return itertools.chain.from_iterable(zip(*replicas, strict=True))
