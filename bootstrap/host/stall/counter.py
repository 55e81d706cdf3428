"""Counts what a rank completes: steps, and batches of an evaluation.

The count is in a page of memory that the rank shares with its helper (rank.py), so that counting
costs nothing and needs no output. The program finds it as the module `railhead_ticks`.
"""

from __future__ import annotations

import functools
import mmap
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from railhead.keras_patches.patch import after_import

MODULE = "railhead_ticks"  # has one function, `tick`
# The modules in which Keras 3 and Keras 2 have the class that calls all callbacks, and its methods
# that count.
OF_KERAS = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")
ENDS = tuple(
    f"CallbackList.on_{kind}_end"
    for kind in ("train_batch", "test_batch", "predict_batch", "epoch")
)
OF_HOROVOD, ALLREDUCES = "horovod.tensorflow.mpi_ops", ("_allreduce", "_grouped_allreduce")
Function = Callable[..., Any]


class Counter:
    """A number in shared memory; a process forked after its creation sees it change. It also has a
    flag for each large package that the rank has imported."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Count from 0, in memory that no other process shares."""
        self.numbers = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    def tick(self) -> None:
        """Count one."""
        self.numbers[0] += 1

    @property
    def count(self) -> int:
        """The number so far."""
        return self.numbers[0]

    def note(self, number: int) -> None:
        """Set the flag of a package, by its number."""
        self.numbers[1 + number] = 1

    def noted(self, number: int) -> bool:
        """Whether the flag of a package is set."""
        return bool(self.numbers[1 + number])


def provide(tick: Callable[[], None]) -> None:
    """Let the program of this process import the function as `railhead_ticks.tick`."""
    module = types.ModuleType(MODULE, "Counts the steps of a rank of Railhead.")
    module.tick = tick  # type: ignore[attr-defined]
    sys.modules[MODULE] = module


def count_steps_of_keras(tick: Callable[[], None]) -> None:
    """After Keras is imported, count each batch and epoch of its own loops."""
    after_import(dict.fromkeys(OF_KERAS, wrapping(ENDS, lambda method: counted(method, tick))))


def count_allreduces(tick: Callable[[], None]) -> None:
    """After Horovod is imported, count each allreduce outside of graphs: the only progress that a
    custom loop shows. In a graph it would count once, when the graph is traced."""

    def tick_outside_graphs() -> None:
        if sys.modules["tensorflow"].executing_eagerly():
            tick()

    wraps = wrapping(ALLREDUCES, lambda function: counted(function, tick_outside_graphs))
    after_import({OF_HOROVOD: wraps})


def wrapping(
    paths: Sequence[str], wrap: Callable[[Function], Function]
) -> Callable[[types.ModuleType], None]:
    """A patch of a module that wraps these of its functions and methods (`Class.method`)."""

    def change(module: types.ModuleType) -> None:
        for path in paths:
            *owners, name = path.split(".")
            owner: Any = module
            for owner_name in owners:
                owner = getattr(owner, owner_name, None)
            if function := getattr(owner, name, None):
                setattr(owner, name, wrap(function))

    return change


def counted(method: Function, tick: Callable[[], None]) -> Function:
    """The method; each return from it counts."""

    @functools.wraps(method)
    def method_and_tick(*args: Any, **more: Any) -> Any:
        result = method(*args, **more)
        tick()
        return result

    return method_and_tick
