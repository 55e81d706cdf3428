"""The interface that every strategy provides to the training loop, so that one loop fits all. Its
own methods are those of one replica that needs no other process.

A *replica* is one copy of the model that computes its own gradient. Under Horovod each process (a
rank) is one replica; under tf.distribute a process has one replica per GPU of its host, or one on
the CPU. `size` counts the replicas of the whole run, which take each step together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Strategy(Protocol):
    """Tensors and Keras objects are Any: they carry no types. A strategy inherits it."""

    size: int
    rank: int  # of this process; 0 reports and writes
    processes: int
    replicas: range  # the numbers, 0 <= n < size, of this process's replicas
    pending: int  # steps that may still run while the loop continues

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which the model and the optimizer are created."""
        return contextlib.nullcontext()

    def iterate(self, dataset: Callable[[range], Any]) -> Iterator[Any]:
        """Iterate over `dataset(replicas)`, whose elements are these replicas' batches in turn."""
        return iter(dataset(self.replicas))

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        """In a graph: take one step on each replica; the first result of this process."""

    def replica(self) -> Any:
        """In a replica's step: its number."""

    def reduce(self, gradients: Sequence[Any], tallies: Any) -> tuple[list[Any], Any]:
        """In a replica's step: the sums of all replicas."""

    def call(self, step: Any, batch: Any) -> Any:
        """Start one compiled step."""
        return step(batch)

    def fetch(self, result: Any) -> Any:
        """The result of a step as a numpy array; waits for it."""
        return result.numpy()

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Give every process rank 0's values of these tf.Variables; nothing to do where they start
        with these, as those of tf.distribute, or have one copy."""
        return

    def average(self, variables: Sequence[Any]) -> None:
        """Give every process the mean of these tf.Variables, such as moving averages; nothing to do
        where they have one copy."""
        return

    def replica_values(self, variable: Any) -> Any:
        """Each of this process's replicas' own value of a tf.Variable, [replicas here, ...]."""
        return variable.numpy()[None]

    def assign_replicas(self, variable: Any, values: Any) -> None:
        """Give each of this process's replicas its own value of a tf.Variable."""
        (value,) = values
        variable.assign(value)

    def total(self, values: Any) -> Any:
        """The sum of a numpy array over all processes, on each of them."""
        return values

    def values(self, variables: Sequence[Any]) -> list[Any]:
        """The variables as numpy arrays; every process must call it."""
        return [variable.numpy() for variable in variables]

    def close(self) -> None:
        """Leave together: no process ends while another still needs it."""
        return
