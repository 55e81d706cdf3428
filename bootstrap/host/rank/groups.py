"""Whether the ranks of a script have joined each other. Ranks that never join train alone, each
over all of the data: this ends the run at the first step, or at the latest at the script's end.
"""

from __future__ import annotations

import ctypes
import functools
import resource
from collections.abc import Callable
from typing import Any

from railhead.documents.runs.run import RunDocument
from railhead.keras_patches.names import not_converted
from railhead.keras_patches.patch import after_import

from ..run.joining import JOIN
from ..stall.counter import Function, wrapping

ALONE = """railhead: the {size} ranks of this script never joined each other:
each trains alone, over all of its data. {join}
(docs/own-script.md); or name one host; or add --independent if that is meant."""
# By module: the functions by which a process joins others. Horovod and mpi4py: see `joined_mpi`.
JOINING = {
    "tensorflow.python.eager.context": ("Context.enable_collective_ops", "Context.set_server_def"),
    "tensorflow.python.training.server_lib": ("Server.__init__",),
    "jax._src.distributed": ("State.initialize",),
    "torch.distributed.distributed_c10d": ("init_process_group",),
}
# By module: the functions that a training step calls (in a graph: when the first step is traced).
STEPS = {
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer.apply",),
    "tf_keras.src.optimizers.optimizer": ("_BaseOptimizer.apply_gradients",),
    "tf_keras.src.optimizers.legacy.optimizer_v2": ("OptimizerV2.apply_gradients",),
    "torch.optim.optimizer": ("Optimizer.zero_grad",),
    "optax._src.update": ("apply_updates",),
}
WORKED = 1.0  # CPU seconds of children: from here on a child may have trained


class Group:
    """Whether this rank has joined others."""

    def __init__(self, run: RunDocument) -> None:
        self.begin(run)

    def begin(self, run: RunDocument) -> None:
        """This process is a rank of this run."""
        self.run = run
        self.joined = run.size == 1 or run.independent
        self.before = children_seconds()

    def watch(self, *, steps: bool) -> None:
        """Note when this process joins others, by wrapping functions of libraries after their
        import. `steps`: end the script at its first step if it has not joined."""
        if self.joined:
            return
        joins, requires = called_first(self.join), called_first(self.require)
        after_import({module: wrapping(names, joins) for module, names in JOINING.items()})
        if steps:
            after_import({module: wrapping(names, requires) for module, names in STEPS.items()})

    def join(self) -> None:
        """Note that this process joins others."""
        self.joined = True

    def require(self) -> None:
        """End the script if this process has joined no others."""
        if alone := self.alone():
            raise SystemExit(alone)

    def alone(self) -> str:
        """Why this rank trains alone, and what to do; "" if it does not."""
        self.joined = self.joined or joined_mpi()
        if self.joined:
            return ""
        return ALONE.format(size=self.run.size, join=JOIN[self.run.launcher])

    def alone_at_end(self) -> str:
        """As `alone`, at the end of the script; also "" if a child process may have trained."""
        return self.alone() if children_seconds() - self.before < WORKED else ""


def called_first(before: Callable[[], None]) -> Callable[[Function], Function]:
    """Wraps a function so that it calls `before` first."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            before()
            return function(*args, **more)

        return not_converted(call)

    return wrap


def children_seconds() -> float:
    """CPU seconds of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def joined_mpi() -> bool:
    """Whether this process ever called MPI_Init; still true after MPI_Finalize."""
    flag = ctypes.c_int(0)
    try:
        ctypes.CDLL("libmpi.so.40").MPI_Initialized(ctypes.byref(flag))
    except OSError:
        return False
    return bool(flag.value)
