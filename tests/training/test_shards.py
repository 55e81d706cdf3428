"""Which sample goes where: exact, without TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from training.data.shards import (
    PADDING,
    cut,
    held_out_batches,
    shuffled,
    steps_in_epoch,
    training_batches,
)

CASES = [  # samples, size, batch_size
    (1, 1, 1),
    (7, 2, 2),
    (10, 3, 2),
    (64, 4, 16),
    (1437, 1, 32),
    (1437, 2, 32),
    (1437, 16, 32),
    (16, 16, 8),
]


def epoch_of(
    samples: int, size: int, batch_size: int, epoch: int = 0
) -> list[list[tuple[int, ...]]]:
    """Per rank, its batches."""
    return [
        [
            tuple(batch)
            for batch in training_batches(
                samples, size=size, rank=rank, epoch=epoch, seed=5, batch_size=batch_size
            )
        ]
        for rank in range(size)
    ]


def flat(batches: Iterable[Iterable[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


@pytest.mark.parametrize(("samples", "size", "batch_size"), CASES)
def test_every_sample_goes_to_one_rank_once_but_for_the_remainder(
    samples: int, size: int, batch_size: int
) -> None:
    seen = [number for rank in epoch_of(samples, size, batch_size) for number in flat(rank)]
    assert len(seen) == len(set(seen)) == samples // size * size
    assert set(seen) <= set(range(samples))


@pytest.mark.parametrize(("samples", "size", "batch_size"), CASES)
def test_all_ranks_take_the_same_steps_with_batches_of_the_same_length(
    samples: int, size: int, batch_size: int
) -> None:
    lengths = {tuple(len(batch) for batch in rank) for rank in epoch_of(samples, size, batch_size)}
    (only,) = lengths
    assert len(only) == steps_in_epoch(samples, size=size, batch_size=batch_size)
    assert max(only) <= batch_size
    assert max(only) - min(only) <= 1


def test_the_remainder_is_another_one_in_another_epoch() -> None:
    left_out = [
        set(range(10)) - {number for rank in epoch_of(10, 4, 2, epoch) for number in flat(rank)}
        for epoch in range(60)
    ]
    assert all(len(left) == 2 for left in left_out)
    assert set.union(*left_out) == set(range(10))


def test_the_global_batches_do_not_depend_on_how_many_ranks_share_them() -> None:
    alone = [set(batch) for batch in epoch_of(64, 1, 16)[0]]
    together = [set(flat(step)) for step in zip(*epoch_of(64, 4, 4), strict=True)]
    assert together == alone


def test_the_order_is_the_same_on_every_machine() -> None:
    assert list(shuffled(8, epoch=0, seed=0)) == [0, 2, 1, 4, 6, 7, 3, 5]
    assert epoch_of(10, 2, 3) == [
        [(9, 8, 5), (1, 3)],
        [(6, 0, 2), (4, 7)],
    ]


def test_another_epoch_and_another_seed_give_other_orders() -> None:
    orders = {tuple(shuffled(50, epoch=e, seed=s)) for e in range(3) for s in range(3)}
    assert len(orders) == 9


def test_fewer_samples_than_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="3 samples do not reach for 4 ranks"):
        steps_in_epoch(3, size=4, batch_size=1)


@pytest.mark.parametrize(("samples", "size", "batch_size"), [*CASES, (3, 4, 2), (360, 7, 32)])
def test_every_held_out_sample_is_judged_once(samples: int, size: int, batch_size: int) -> None:
    shards = [
        held_out_batches(samples, size=size, rank=rank, batch_size=batch_size)
        for rank in range(size)
    ]
    seen = [number for shard in shards for number in flat(shard) if number != PADDING]
    assert sorted(seen) == list(range(samples))
    (lengths,) = {tuple(len(batch) for batch in shard) for shard in shards}
    assert max(lengths) <= batch_size


def test_a_cut_puts_the_longer_pieces_first() -> None:
    assert cut(range(7), 3) == [range(3), range(3, 5), range(5, 7)]
