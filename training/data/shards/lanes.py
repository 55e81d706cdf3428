"""In which order the records of shards are read: lanes, tracks and windows. Needs NumPy.

A lane is a fixed part of the records (`assignment`). For each epoch its pieces of shards are
shuffled and dealt into tracks of equal length, which are read at the same time, each from front to
back. A window has an equal part of each track: it mixes several shards. Its records are shuffled.

Order 2 makes a window when it is reached: its shuffle is the stable argsort of the raw numbers of a
Philox generator, keyed by seed, epoch, lane and window. Nothing is stored for a record, and an
epoch continues anywhere at once. Order 1, of older checkpoints, has one track, and one sequence of
random numbers for each lane: to continue, it repeats all earlier draws.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ..assignment import Span

TRACKS = 4
WORD = 1 << 64
PIECES = WORD - 1  # the shuffle of a lane's pieces: no window has this counter


@dataclass(frozen=True, eq=False)
class Spans:
    """Stretches of records in order, as columns: `count` records from the sample `number` on, all
    of one shard. `starts` is the first sample number of each shard. All are int64."""

    starts: Any
    number: Any
    count: Any

    @staticmethod
    def of_shards(records: Any) -> Spans:
        """All records of shards with these numbers of records."""
        count = np.array(records, np.int64)
        starts = np.cumsum(count) - count
        return Spans(starts, starts[count > 0], count[count > 0])

    @property
    def records(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @cached_property
    def ends(self) -> Any:
        """How many records there are up to the end of each span."""
        return np.cumsum(self.count)

    def shards(self) -> Any:
        """The number of each span's shard."""
        return np.searchsorted(self.starts, self.number, "right") - 1

    def __iter__(self) -> Iterator[Span]:
        first = self.number - self.starts[(shards := self.shards())]
        columns = (column.tolist() for column in (shards, first, self.count, self.number))
        return map(Span, *columns)

    def __len__(self) -> int:
        return len(self.number)

    def take(self, skip: int, count: int) -> Spans:
        """The spans of `count` records after the first `skip`."""
        end = min(skip + count, self.records)
        if skip >= end:
            return self.chosen(slice(0))
        first, last = np.searchsorted(self.ends, [skip, end - 1], "right")
        taken = self.chosen(slice(first, last + 1))
        passed = skip - (self.ends[first] - self.count[first])
        taken.count[-1] -= self.ends[last] - end
        taken.count[0] -= passed
        taken.number[0] += passed
        return taken

    def without(self, begins: Any, counts: Any) -> tuple[Spans, Spans]:
        """All records except `counts` records from record `begins` of each span on; and these."""
        held_out = Spans(self.starts, self.number + begins, counts)
        ends = begins + counts
        number = np.stack([self.number, self.number + ends], 1).ravel()
        rest = Spans(self.starts, number, np.stack([begins, self.count - ends], 1).ravel())
        return rest.chosen(rest.count > 0), held_out.chosen(counts > 0)

    def chosen(self, index: Any) -> Spans:
        """The spans that an index of NumPy names, copied."""
        return Spans(self.starts, self.number[index].copy(), self.count[index].copy())

    def numbers(self, begin: int, end: int) -> Any:
        """The sample numbers of the records [begin, end), int64."""
        place = np.arange(begin, min(end, self.records))
        span = np.searchsorted(self.ends, place, "right")
        return self.number[span] + place - (self.ends[span] - self.count[span])


class Draws(Protocol):
    """The shuffles of one lane in one epoch."""

    def pieces(self, count: int) -> Any:
        """The order of the lane's pieces."""

    def windows(self, sizes: Callable[[int], int], first: int) -> Iterator[Any]:
        """The orders of the windows from number `first` on; `sizes` says how large each is."""


@dataclass
class Keyed:
    """Order 2: each shuffle has its own key."""

    seed: int
    epoch: int
    lane: int

    def pieces(self, count: int) -> Any:
        return self._shuffle(PIECES, count)

    def windows(self, sizes: Callable[[int], int], first: int) -> Iterator[Any]:
        number = first
        while size := sizes(number):
            yield self._shuffle(number, size)
            number += 1

    def _shuffle(self, number: int, size: int) -> Any:
        counter = np.array([0, number, self.lane, self.epoch], np.uint64)
        key = np.array([self.seed % WORD, self.seed // WORD % WORD], np.uint64)
        return argsort(np.random.Philox(key=key, counter=counter).random_raw(size))


def argsort(drawn: Any) -> Any:
    """The stable argsort of random uint64, whose lowest bits are replaced by the index, so that all
    differ. It takes a fifth of the time of NumPy's, and any sort gives the same."""
    low = np.uint64(len(drawn).bit_length())
    with_index = drawn >> low << low | np.arange(len(drawn), dtype=np.uint64)
    with_index.sort()
    return (with_index & ((np.uint64(1) << low) - np.uint64(1))).astype(np.int64)


@dataclass
class InSequence:
    """Order 1: the shuffles of a lane follow each other in one generator, first the pieces'."""

    seed: int
    epoch: int
    lane: int
    count: int = 0

    def pieces(self, count: int) -> Any:
        self.count = count
        return next(self._shuffles(lambda number: 0), [])

    def windows(self, sizes: Callable[[int], int], first: int) -> Iterator[Any]:
        return itertools.islice(self._shuffles(sizes), 1 + first, None)

    def _shuffles(self, sizes: Callable[[int], int]) -> Iterator[Any]:
        generator = random.Random(f"{self.seed}/{self.epoch}/{self.lane}")
        sizes_of_all = itertools.chain([self.count], map(sizes, itertools.count()))
        for size in itertools.takewhile(bool, sizes_of_all):
            order = list(range(size))
            generator.shuffle(order)
            yield np.array(order, np.int64)


DRAWS = {1: InSequence, 2: Keyed}


def tracks_of(order: int, window: int) -> int:
    """How many tracks a lane has; a window of 1 keeps records and shards as they are written."""
    return 1 if order == 1 else min(TRACKS, window)


class Lane:
    """One lane in one epoch, from its record number `start` on."""

    def __init__(
        self, spans: Spans, draws: Draws, *, tracks: int, window: int, start: int = 0
    ) -> None:
        self.draws, self.shuffled = draws, window > 1
        self.stretch = max(1, window // tracks)  # records of a track in a window
        self.window = self.stretch * tracks
        self.first, self.inside = divmod(start, self.window)
        ordered = spans.chosen(draws.pieces(len(spans))) if self.shuffled else spans
        edges = [spans.records * track // tracks for track in range(tracks + 1)]
        self.tracks = [ordered.take(begin, end - begin) for begin, end in pairwise(edges)]

    def reads(self, track: int) -> Spans:
        """The part of a track that is read: from the window in which the lane continues."""
        spans = self.tracks[track]
        return spans.take(self.first * self.stretch, spans.records)

    def counts(self, number: int) -> list[int]:
        """How many records of each track are in a window."""
        remaining = (spans.records - number * self.stretch for spans in self.tracks)
        return [max(0, min(self.stretch, records)) for records in remaining]

    def orders(self) -> Iterator[Any]:
        """For each window from there on, which of its records are trained and in which order.

        A window has the next `stretch` records of each track in turn, the last one fewer.
        """

        def size(number: int) -> int:
            return sum(self.counts(number))

        orders = self.draws.windows(size, self.first) if self.shuffled else self._as_written(size)
        for number, order in enumerate(orders, self.first):
            yield order[self.inside if number == self.first else 0 :]

    def _as_written(self, size: Callable[[int], int]) -> Iterator[Any]:
        sizes = map(size, itertools.count(self.first))
        yield from (np.arange(count) for count in itertools.takewhile(bool, sizes))

    def numbers(self) -> Iterator[int]:
        """The sample numbers in the order of training."""
        for number, order in enumerate(self.orders(), self.first):
            begin = number * self.stretch
            read = [spans.numbers(begin, begin + self.stretch) for spans in self.tracks]
            yield from np.concatenate(read)[order].tolist()
