"""The ways to train on several devices, behind one small protocol, so that one loop serves all.

A *replica* is one copy of the model that computes its own gradient. Under Horovod each process (a
rank) is one replica; under tf.distribute a process holds one replica per GPU of its host, or one on
the CPU. `size` counts the replicas of the whole run, which take each step together.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from training.results import MODEL, TrainingError


class Strategy(Protocol):
    """What the loop asks of a strategy. Tensors and Keras objects are Any: they carry no types."""

    size: int
    rank: int  # of this process; 0 reports and writes
    processes: int
    replicas: range  # the numbers, 0 <= n < size, of this process's replicas

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where the model and the optimizer are made."""

    def iterate(self, dataset: Callable[[range], Any]) -> Iterator[Any]:
        """Iterate over `dataset(replicas)`, whose elements are these replicas' batches in turn."""

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        """Take one step on each replica; the sum of the results of this process's replicas."""

    def gradients(self, tape: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        """One replica's part of the update: once the optimizer applies it, the mean counts."""

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Give every process rank 0's values of these tf.Variables."""

    def total(self, values: Any) -> Any:
        """The sum of one tensor over all processes, on each of them."""

    def save(self, model: Any, folder: Path) -> None:
        """Write the model from rank 0; every process must call it."""

    def close(self) -> None:
        """Leave together: no process ends while another still needs it."""


class Horovod:
    """One process per slot, one replica each; mpirun started them."""

    def __init__(self) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        self.hvd = hvd
        self.size = self.processes = hvd.size()
        self.rank = hvd.rank()
        self.replicas = range(self.rank, self.rank + 1)
        gpu = gpu_for(hvd.local_rank(), tf.config.list_physical_devices("GPU"))
        claim_gpus([gpu] if gpu else [])

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def iterate(self, dataset: Callable[[range], Any]) -> Iterator[Any]:
        return iter(dataset(self.replicas))

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        return replica_step(batch)

    def gradients(self, tape: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        averaging = self.hvd.DistributedGradientTape(tape, op=self.hvd.Average)
        return list(averaging.gradient(loss, variables))

    def broadcast(self, variables: Sequence[Any]) -> None:
        self.hvd.broadcast_variables(list(variables), root_rank=0)

    def total(self, values: Any) -> Any:
        return self.hvd.allreduce(values, op=self.hvd.Sum)

    def save(self, model: Any, folder: Path) -> None:
        if self.rank == 0:
            save_whole(model, folder)

    def close(self) -> None:
        self.hvd.shutdown()


class Distributed:
    """A tf.distribute strategy in one process: one-device and mirrored."""

    rank = 0
    processes = 1

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.size = strategy.num_replicas_in_sync
        here = self.size // self.processes
        self.replicas = range(self.rank * here, (self.rank + 1) * here)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def iterate(self, dataset: Callable[[range], Any]) -> Iterator[Any]:
        # Called once on each host; we shard by our own rule, so its context is not needed.
        whole = self.strategy.distribute_datasets_from_function(lambda _: dataset(self.replicas))
        return iter(whole)

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        results = self.strategy.run(replica_step, args=(batch,))
        return tf.add_n(self.strategy.experimental_local_results(results))

    def gradients(self, tape: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        # The optimizer sums the replicas' gradients, so each brings its part of the mean.
        part = tf.fill(tf.shape(loss), 1.0 / self.size)
        return list(tape.gradient(loss, variables, output_gradients=part))

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Nothing to do: variables made in the scope start from the first worker's values."""

    def total(self, values: Any) -> Any:
        return values

    def save(self, model: Any, folder: Path) -> None:
        save_whole(model, folder)

    def close(self) -> None:
        """One process waits for nobody."""


class MultiWorker(Distributed):
    """MultiWorkerMirroredStrategy: one process per host, told of the others by TF_CONFIG."""

    def __init__(self) -> None:
        if not os.environ.get("TF_CONFIG"):
            raise TrainingError("strategy multiworker needs TF_CONFIG, and it is not set")
        claim_gpus(tf.config.list_physical_devices("GPU"))
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self.rank = int(resolver.task_id)
        self.processes = resolver.cluster_spec().num_tasks("worker")
        super().__init__(tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver))
        self._total = tf.function(self._reduce, autograph=False)

    def total(self, values: Any) -> Any:
        return self._total(values)

    def save(self, model: Any, folder: Path) -> None:
        """All read the variables (some are reduced as they are read); the chief's file stays."""
        if self.rank == 0:
            save_whole(model, folder)
            return
        with tempfile.TemporaryDirectory() as scratch:
            save_whole(model, Path(scratch))

    def close(self) -> None:
        self.total(tf.zeros([]))  # a worker that leaves early is an error to the others

    def _reduce(self, values: Any) -> Any:
        def add(values: Any) -> Any:
            context = tf.distribute.get_replica_context()
            # All replicas here hold the same values: only the first one's count.
            first = context.replica_id_in_sync_group % len(self.replicas) == 0
            return context.all_reduce("SUM", tf.where(first, values, tf.zeros_like(values)))

        results = self.strategy.run(add, args=(values,))
        return self.strategy.experimental_local_results(results)[0]


def one_device() -> Distributed:
    """The first GPU where there is one, else the CPU."""
    gpus = tf.config.list_physical_devices("GPU")[:1]
    claim_gpus(gpus)
    return Distributed(tf.distribute.OneDeviceStrategy("gpu:0" if gpus else "cpu:0"))


def mirrored() -> Distributed:
    """All GPUs of this host, else its CPU as the only replica."""
    gpus = tf.config.list_physical_devices("GPU")
    claim_gpus(gpus)
    devices = [f"gpu:{number}" for number in range(len(gpus))] or ["cpu:0"]
    return Distributed(tf.distribute.MirroredStrategy(devices))


ADAPTERS: dict[str, Callable[[], Strategy]] = {
    "horovod": Horovod,
    "multiworker": MultiWorker,
    "mirrored": mirrored,
    "one-device": one_device,
}


def join(name: str, *, processes: int | None) -> Strategy:
    """Meet the run's other processes; TrainingError when they are not as many as were started."""
    strategy = ADAPTERS[name]()
    if processes is not None and strategy.processes != processes:
        raise TrainingError(
            f"strategy {name} joined {strategy.processes} process(es), but the run has {processes}"
        )
    return strategy


def gpu_for(local_rank: int, gpus: Sequence[Any]) -> Any:
    """This rank's own GPU; None where the host has no GPU at all."""
    if not gpus:
        return None
    if local_rank >= len(gpus):
        raise TrainingError(
            f"each rank needs a GPU of its own: local rank {local_rank} is one too many for this "
            f"host's {len(gpus)}; give the host fewer slots"
        )
    return gpus[local_rank]


def claim_gpus(gpus: Sequence[Any]) -> None:
    """See these GPUs only, and take their memory as it is needed, not all of it at once."""
    tf.config.set_visible_devices(list(gpus), "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)


def save_whole(model: Any, folder: Path) -> None:
    """Save so that a reader sees the whole model or none."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".partial.{MODEL}"  # Keras tells the format by the end of the name
    model.save(partial)
    partial.replace(folder / MODEL)
