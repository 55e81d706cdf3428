"""Random changes to training images, after which their labels are still right.

They depend on (seed, epoch, sample number) alone, so that a sample is changed in the same way
on any number of replicas and after a resume.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def draws(seed: int, epoch: Any, numbers: Any, stream: int) -> Any:
    """One pseudo-random number below 2**31 per sample: int64 [batch] for numbers [batch]."""
    mixed = tf.cast(numbers, tf.uint64)
    for word in (seed, tf.cast(epoch, tf.uint64), stream):
        mixed = _mix(mixed + tf.cast(word, tf.uint64) * tf.constant(0x9E3779B97F4A7C15, tf.uint64))
    return tf.cast(tf.bitwise.right_shift(mixed, tf.constant(33, tf.uint64)), tf.int64)


def _mix(value: Any) -> Any:
    """The last stage of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        shifted = tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64))
        value = tf.bitwise.bitwise_xor(value, shifted) * tf.constant(factor, tf.uint64)
    last = tf.bitwise.right_shift(value, tf.constant(31, tf.uint64))
    return tf.bitwise.bitwise_xor(value, last)


def shift_images(images: Any, most: int, rows: Any, columns: Any) -> Any:
    """Move each image of [batch, height, width, channels] by up to `most` pixels either way.

    New pixels at the edges are black. `rows` and `columns` are draws. For digits of unseen writers
    this adds several points of accuracy: a small network otherwise memorises where on the grid
    each writer puts the pen.
    """
    _, height, width = tf.unstack(tf.shape(images)[:3])
    padded = tf.pad(images, [[0, 0], [most, most], [most, most], [0, 0]])
    start = tf.cast(tf.stack([rows, columns], axis=1) % (2 * most + 1), tf.int32)
    moved = tf.gather(padded, start[:, :1] + tf.range(height), batch_dims=1, axis=1)
    return tf.gather(moved, start[:, 1:] + tf.range(width), batch_dims=1, axis=2)


def flip_images(images: Any, draw: Any) -> Any:
    """Mirror about half of the images left to right."""
    chosen = tf.reshape(draw % 2 == 1, [-1, 1, 1, 1])
    return tf.where(chosen, tf.reverse(images, axis=[2]), images)
