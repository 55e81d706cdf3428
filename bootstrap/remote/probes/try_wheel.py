"""Tries a Horovod wheel in its environment: what it was built with, and a sum over two ranks.

mpirun -np 2 PYTHON try_wheel.py mpi gloo [nccl]   -> one line; exit 1 with what is wrong

The ranks meet on the CPU, whatever the host has: what GPUs do is tried by `make gpu-check`.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def main(*wanted: str) -> None:
    """Exits with what is wrong; rank 0 says what was seen."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import horovod.tensorflow as hvd

    hvd.init()
    built = parts(hvd)
    if lacks := [part for part in wanted if part not in built]:
        sys.exit(f"the wheel was built without {', '.join(lacks)}")
    if hvd.size() != 2:
        sys.exit(f"the ranks did not meet: the size is {hvd.size()}, not 2")
    reduce(hvd)
    if hvd.rank() == 0:
        print(f"built with {', '.join(built)}; 2 ranks summed over MPI", flush=True)
    hvd.shutdown()


def parts(hvd: Any) -> list[str]:
    """What `horovodrun --check-build` lists: the parts that the wheel was built with."""
    features = {"mpi": hvd.mpi_built, "gloo": hvd.gloo_built, "nccl": hvd.nccl_built}
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


if __name__ == "__main__":
    main(*sys.argv[1:])
