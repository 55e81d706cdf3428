"""A run that `fab health` starts: an all-reduce over all ranks, then over each pair of ranks.

Its one argument is the pairs, [[0, 1], [0, 2]]. Rank 0 writes health.json to the run's results.
Pairs are measured one at a time: all ranks share Horovod's cycles, so simultaneous pairs would
affect each other's times.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

FIRST, LAST = 1 << 20, 1 << 26  # bytes: from 1 MiB, times four, up to 64 MiB
LONG = 0.2  # seconds; sizes that would take longer are not tried
ROUNDS = 3


def main() -> None:
    """Measure on all ranks; rank 0 writes the result."""
    pairs = json.loads(sys.argv[1])
    groups = [hvd.ProcessSet(pair) for pair in pairs]
    hvd.init(process_sets=groups)
    take_gpu(hvd.local_rank())
    size, seconds = measure("all", hvd.global_process_set, hvd.size())
    rates = [in_turn(f"pair-{i}", group) for i, group in enumerate(groups)]
    if hvd.rank() == 0:
        measured = {"ranks": hvd.size(), "size": size, "seconds": seconds, "rates": rates}
        with open(os.path.join(os.environ["RAILHEAD_RESULTS"], "health.json"), "w") as file:
            json.dump(measured, file)
    hvd.shutdown()


def take_gpu(index: int) -> None:
    """Use one GPU per rank of a host, as in a run."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.experimental.set_memory_growth(gpus[index], True)
        tf.config.set_visible_devices(gpus[index], "GPU")


def in_turn(name: str, group: Any) -> float:
    """Measure one pair; returns its bytes per second on all ranks."""
    rate = 0.0
    if group.included():
        size, seconds = measure(name, group, 2)
        rate = size / seconds
    total = hvd.allreduce(tf.constant([rate]), op=hvd.Sum, name=f"{name}-rate")
    return float(total[0]) / 2


def measure(name: str, group: Any, ranks: int) -> tuple[int, float]:
    """The largest size that does not take too long, and its best time on the slowest rank."""
    size = FIRST
    while True:
        best = min(once(f"{name}-{size}", size, group, ranks) for _ in range(ROUNDS))
        last = tf.constant([best], tf.float64)
        slow = hvd.allreduce(last, op=hvd.Max, name=f"{name}-{size}-slow", process_set=group)
        seconds = float(slow[0])
        if seconds * 4 > LONG or size == LAST:
            return size, seconds
        size *= 4


def once(name: str, size: int, group: Any, ranks: int) -> float:
    """Seconds of one all-reduce; RuntimeError if the sum is wrong."""
    ones = tf.ones((size // 4,))
    start = time.perf_counter()
    total = hvd.allreduce(ones, op=hvd.Sum, name=name, process_set=group)
    total[0].numpy()  # wait for the GPU
    seconds = time.perf_counter() - start
    low, high = float(tf.reduce_min(total)), float(tf.reduce_max(total))
    if not low == high == ranks:
        raise RuntimeError(f"{name}: the sum over {ranks} ranks is {low} to {high}")
    return seconds


if __name__ == "__main__":
    main()
