"""Settings of the whole process that computes."""

from __future__ import annotations

import keras
import tensorflow as tf

from training.job import Job


def prepare(job: Job) -> None:
    """Set threads, precision and determinism, before TensorFlow starts its threads."""
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    # Two at least: one waits in a collective while the other still computes.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, job.threads))
    keras.mixed_precision.set_global_policy(job.config.precision)
    if job.config.deterministic == "on":
        tf.config.experimental.enable_op_determinism()
