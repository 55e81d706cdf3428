"""Which sample goes to which rank in which step: a pure function, stdlib only.

Here `size` counts replicas (one model copy that computes its own gradient: a Horovod rank, or one
GPU of a tf.distribute strategy) and `rank` is a replica's number, 0 <= rank < size.

The rule of an epoch:
1. All samples are shuffled by (seed, epoch); every rank computes the same order.
2. Each rank gets samples // size of them. The rest, at most size - 1 samples, sit this epoch out;
   the next epoch's shuffle picks others.
3. A share is cut into the fewest batches of at most batch_size, as even as can be.
So every rank takes the same number of steps (a rank with one more would wait for ever in its
all-reduce), with batches of the same length in the same step (so the mean of the ranks' gradients
is the gradient of the whole batch), and no tiny last batch adds its noise.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

PADDING = -1


def steps_in_epoch(samples: int, *, size: int, batch_size: int) -> int:
    """How many steps each rank takes to see its share once; ValueError if a rank would get none."""
    share = samples // size
    if share == 0:
        raise ValueError(f"{samples} samples do not reach for {size} ranks: each needs at least 1")
    return -(-share // batch_size)


def training_batches(
    samples: int, *, size: int, rank: int, epoch: int, seed: int, batch_size: int
) -> list[Sequence[int]]:
    """The sample numbers of each of this rank's batches in one epoch (`epoch` counts from 0)."""
    steps = steps_in_epoch(samples, size=size, batch_size=batch_size)
    kept = samples // size * size
    # One stride over the common order: step k of all ranks together is one stretch of it, so the
    # global batches do not depend on how many ranks share them (where the numbers divide).
    return cut(shuffled(samples, epoch=epoch, seed=seed)[rank:kept:size], steps)


def held_out_batches(samples: int, *, size: int, rank: int, batch_size: int) -> list[Sequence[int]]:
    """The sample numbers of each of this rank's held-out batches: all samples, once, in order.

    Here nothing may be left out, and nothing need be equal but the count: short shares end in
    PADDING, which weighs nothing.
    """
    share = -(-samples // size)
    mine = list(range(rank, samples, size))
    mine += [PADDING] * (share - len(mine))
    return cut(mine, -(-share // batch_size))


def cut(numbers: Sequence[int], pieces: int) -> list[Sequence[int]]:
    """Cut into consecutive pieces whose lengths differ by at most one, the longer ones first."""
    short, longer = divmod(len(numbers), pieces)
    starts = [piece * short + min(piece, longer) for piece in range(pieces + 1)]
    return [numbers[start:end] for start, end in zip(starts, starts[1:], strict=False)]


@functools.lru_cache(maxsize=1)  # a host with several GPUs asks once for each of them
def shuffled(samples: int, *, epoch: int, seed: int) -> Sequence[int]:
    """Every sample number once, in an order that is the same on each machine."""
    order = list(range(samples))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order
