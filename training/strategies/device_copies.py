"""Lets the device copies of a data set that tf.distribute creates end at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import tensorflow as tf

MAKE = "_create_device_dataset"  # tf.data has no public way to the options of these data sets


def end_at_once() -> None:
    """Create these copies without a thread that tunes them: there is nothing to tune. A TensorFlow
    that creates them elsewhere stays as it is.

    An iterator waits for that thread when it is deleted. If the thread reads the flag to end just
    before it is set, it sleeps on, for as long as the iterator has existed, up to 60 s. This
    happens at the end of at least every second run (TensorFlow 2.18.1 and 2.21.0, model.cc
    `OptimizeLoop`, cancellation.cc).
    """
    with suppress(ImportError):
        from tensorflow.python.data.ops import multi_device_iterator_ops

        make = getattr(multi_device_iterator_ops, MAKE, None)
        if make is None or hasattr(make, "railhead"):
            return

        def make_untuned(*args: Any) -> Any:
            return make(*args).with_options(untuned())

        make_untuned.railhead = True  # type: ignore[attr-defined]
        setattr(multi_device_iterator_ops, MAKE, make_untuned)


def untuned() -> Any:
    """The options of a data set whose numbers are all given."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options
