"""Which sample goes to which replica in which step: pure functions, standard library only.

A replica is one model copy that computes its own gradient: a Horovod rank, or one device of a
tf.distribute strategy.

An epoch is one sequence of all samples. A sample's place in it is its *position*. Step k trains on
positions k * global_batch to (k + 1) * global_batch, so the samples of a step do not depend on the
number of replicas. The last step takes what is left: every sample counts exactly once.

Lanes decide which replica gets which positions of a step: position p belongs to lane p % lanes, and
lane l to replica l % replicas.

- Data that can be read in any order (arrays, image files): one lane per replica, and the sequence
  is a full shuffle.
- Shards, which are read from front to back: 8 lanes, each a fixed eighth of the records, shuffled
  by itself (`shards/lanes`). A replica reads whole lanes, so no record is read twice. If the number
  of replicas does not divide 8, there is one lane for each replica, and thus another sequence.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LANES = 8
ORDERS = (1, 2)  # how shards are shuffled (`shards/lanes`): versions, the newest last


@dataclass(frozen=True)
class Epoch:
    """The cut of one epoch into steps and shares; `start` is the first position to train."""

    samples: int
    global_batch: int
    replicas: int
    lanes: int
    start: int = 0

    @property
    def steps(self) -> int:
        """How many steps are left from `start`; the same for every replica."""
        return -(-(self.samples - self.start) // self.global_batch)

    def positions(self, step: int) -> range:
        """The positions of one step, of all replicas together."""
        begin = self.start + step * self.global_batch
        return range(begin, min(begin + self.global_batch, self.samples))

    def share(self, step: int, replica: int) -> Sequence[int]:
        """The positions of one replica in one step; empty if nothing is left for it."""
        batch = self.positions(step)
        if self.lanes % self.replicas == 0:  # then p % lanes % replicas is p % replicas
            begin = batch.start + (replica - batch.start) % self.replicas
            return range(begin, max(begin, batch.stop), self.replicas)
        return [p for p in batch if p % self.lanes % self.replicas == replica]

    def length(self, step: int, replica: int) -> int:
        """Samples in a replica's batch. Only a batch that would be empty is padded.

        Padding counts in the statistics of a batch normalisation, though not in the loss.
        """
        return max(1, len(self.share(step, replica)))

    @property
    def idle(self) -> bool:
        """Whether a replica gets only padding in the first or the last step."""
        edges = (0, self.steps - 1)
        return not all(self.share(step, r) for step in edges for r in range(self.replicas))


@dataclass(frozen=True)
class Share:
    """One replica's batch of one step: `weights` are 1, and 0 for padding."""

    positions: Sequence[int]
    weights: Sequence[float]
    total: int  # samples of the step, of all replicas together


def shares(epoch: Epoch, replica: int, steps: int) -> Iterator[Share]:
    """The batches of one replica. Padding repeats the first position of its step."""
    for step in range(steps):
        positions = epoch.positions(step)
        share = epoch.share(step, replica)
        missing = epoch.length(step, replica) - len(share)
        yield Share(
            positions=[*share, *[positions[0]] * missing],
            weights=[1.0] * len(share) + [0.0] * missing,
            total=len(positions),
        )


@functools.lru_cache(maxsize=1)  # a host with several GPUs calls it once for each of them
def shuffled(samples: int, *, epoch: int, seed: int) -> Sequence[int]:
    """Every sample number once, in an order that is the same on each machine."""
    order = list(range(samples))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


# --- Lanes of shards -----------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """`count` records of one shard from record `first`, whose sample number is `number`."""

    shard: int
    first: int
    count: int
    number: int


def lanes_for(replicas: int) -> int:
    """8 if the replicas can share 8 lanes evenly, otherwise one lane each."""
    return LANES if LANES % replicas == 0 else replicas


def lane_length(samples: int, lanes: int, lane: int) -> int:
    """How many positions p < samples have p % lanes == lane."""
    return (samples - lane + lanes - 1) // lanes


def lane_begin(samples: int, lanes: int, lane: int) -> int:
    """The first sample number of a lane: lanes are consecutive, and differ by one at most."""
    return samples // lanes * lane + min(lane, samples % lanes)
