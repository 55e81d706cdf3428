"""Tries a Horovod wheel in its environment: what it was built with, its operations on two ranks.

mpirun -np 2 PYTHON try_wheel.py mpi [nccl]   -> one line; exit 1 with what is wrong

The ranks meet on the CPU, whatever the host has: what GPUs do is tried by `make gpu-check`.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def main(*required: str) -> None:
    """Exits with what is wrong; rank 0 says what was seen."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import horovod.tensorflow as hvd

    hvd.init()
    built = parts(hvd)
    if lacks := [name for name in required if name not in built]:
        sys.exit(f"the wheel was built without {', '.join(lacks)}")
    if hvd.size() != 2:
        sys.exit(f"the ranks did not meet: the size is {hvd.size()}, not 2")
    reduce(hvd)
    exchange(hvd)
    learn(hvd)
    if hvd.rank() == 0:
        print(f"built with {', '.join(built)}; 2 ranks summed over MPI", flush=True)
    hvd.shutdown()


def parts(hvd: Any) -> list[str]:
    """What `horovodrun --check-build` lists: the parts that the wheel was built with."""
    features = {"mpi": hvd.mpi_built, "nccl": hvd.nccl_built}
    return [name for name, is_built in features.items() if is_built()]


def reduce(hvd: Any) -> None:
    """One number and many at once, over both ranks."""
    import tensorflow as tf

    numbers = [tf.fill([size], float(hvd.rank() + 1)) for size in (1, 100, 10_000)]
    for total in [
        hvd.allreduce(numbers[0], op=hvd.Sum),
        *hvd.grouped_allreduce(numbers, op=hvd.Sum),
    ]:
        if not bool(tf.reduce_all(total == 3.0)):
            sys.exit(f"1 + 2 over two ranks was {total[0].numpy()}, not 3")


def exchange(hvd: Any) -> None:
    """Each rank's own number, gathered and exchanged; one that rank 1 has; ranks that end early."""
    import tensorflow as tf

    rank = hvd.rank()
    numbers = tf.constant([rank, rank])
    answers = {
        "gathered": (hvd.allgather(numbers), [0, 0, 1, 1]),
        "exchanged": (hvd.alltoall(numbers, splits=[1, 1])[0], [0, 1]),
        "scattered": (hvd.reducescatter(numbers + 1, op=hvd.Sum), [3]),
        "sent": (hvd.broadcast(numbers, root_rank=1), [1, 1]),
        "sent as an object": (tf.constant(hvd.broadcast_object([rank], root_rank=1)), [1]),
    }
    for operation, (answer, expected) in answers.items():
        if answer.numpy().tolist() != expected:
            sys.exit(f"the numbers {operation} were {answer.numpy().tolist()}, not {expected}")
    if hvd.nccl_built():  # its ranks join on GPUs only
        return
    if rank == 0:
        hvd.allreduce(tf.ones(3), op=hvd.Sum)  # rank 1 has joined
    if hvd.join() < 0:
        sys.exit("the ranks did not join")


def learn(hvd: Any) -> None:
    """Two steps of a training, in a function of TensorFlow: the weights are equal on both ranks."""
    import tensorflow as tf

    weights = tf.Variable([float(hvd.rank()), 1.0])
    hvd.broadcast_variables([weights], root_rank=0)

    def descend() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * weights) * (hvd.rank() + 1.0)
        (gradient,) = hvd.DistributedGradientTape(tape).gradient(loss, [weights])
        weights.assign_sub(0.1 * gradient)

    step = tf.function(descend)
    step()
    step()
    both = hvd.allgather(weights[tf.newaxis]).numpy().tolist()
    if both[0] != both[1]:
        sys.exit(f"the weights of the ranks were {both[0]} and {both[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
