"""The ways to train on several devices. A new one is a module with a class that has the methods of
protocol.py, and a line in `STRATEGIES` of training/config.py."""

from __future__ import annotations

import os
from importlib import import_module

from ..config import STRATEGIES
from ..job import Job
from ..results import TrainingError
from . import auto
from .protocol import Strategy


def settle(job: Job) -> tuple[str, str]:
    """The name of the strategy and, for `auto`, why it is this one."""
    if job.strategy != "auto":
        return job.strategy, ""
    import tensorflow as tf

    return auto.choose(os.environ, len(tf.config.list_physical_devices("GPU")))


def make(name: str, job: Job) -> Strategy:
    """Meet the run's other processes."""
    module, _, factory = STRATEGIES[name].partition(":")
    strategy: Strategy = getattr(import_module(f"{__name__}.{module}"), factory)(job)
    return strategy


def join(name: str, job: Job) -> Strategy:
    """Meet the run's other processes; TrainingError if their number is not the number started."""
    strategy = make(name, job)
    if job.processes is not None and strategy.processes != job.processes:
        raise TrainingError(
            f"strategy {name} joined {strategy.processes} process(es), "
            f"but the run has {job.processes}"
        )
    return strategy


def serves(name: str) -> bool:
    """Whether this process only serves others: a worker or a server of parameter-server."""
    if name != "parameter-server":
        return False
    from .parameter_server import role

    return role()[0] != "chief"
