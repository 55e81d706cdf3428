"""A process that computes: its settings, and its position among the run's processes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import keras
import tensorflow as tf

from . import strategies
from .job import Job
from .results import Evaluation, Records
from .strategies.protocol import Strategy


def work_together(
    job: Job, records: Records, work: Callable[[Strategy, str], Evaluation]
) -> Evaluation | None:
    """Join the run's other processes and do `work` with the strategy and its name.

    The result is None in a process that only serves others, such as a parameter server.
    """
    prepare(job)
    name, reason = strategies.settle(job)
    if strategies.serves(name):
        from .strategies.parameter_server import serve

        serve()
        return None
    strategy = strategies.join(name, job)
    if reason and strategy.rank == 0:
        records.emit("message", text=f"strategy {name}: {reason}")
    evaluation = work(strategy, name)
    strategy.close()
    gc.collect()  # its iterators: TensorFlow warns of those that are left at the interpreter's end
    return evaluation


def prepare(job: Job) -> None:
    """Set threads, precision and determinism, before TensorFlow starts its threads; and Keras's
    defaults, which the keras.json of this host's user may change."""
    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    # Two at least: one waits in a collective while the other still computes.
    tf.config.threading.set_inter_op_parallelism_threads(max(2, job.threads))
    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.mixed_precision.set_global_policy(job.config.precision)
    if job.config.deterministic == "on":
        tf.config.experimental.enable_op_determinism()
