"""Which sample goes where: exact, without TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded

from training.data.assignment import Epoch, lane_begin, lane_length, lanes_for, shares, shuffled

REPLICAS = st.integers(1, 17)
BATCHES = st.integers(1, 40)  # global ones
SAMPLES = st.integers(1, 150)


def each_epoch(test: Callable[..., None]) -> Callable[..., None]:
    """Of any size, and of those at the edges."""
    for samples, replicas, batch in [
        (1, 1, 1), (1437, 16, 512), (16, 16, 8),
        (3, 4, 4),  # fewer samples than replicas
        (9, 4, 4),  # a last step of one sample
        (360, 7, 224),
    ]:  # fmt: skip
        test = example(samples=samples, replicas=replicas, batch=batch)(test)
    return bounded(40)(given(samples=SAMPLES, replicas=REPLICAS, batch=BATCHES)(test))


def steps_of(epoch: Epoch) -> list[list[list[int]]]:
    """Per step and replica the positions that count."""
    replicas = [list(shares(epoch, r, epoch.steps)) for r in range(epoch.replicas)]
    return [
        [[p for p, w in zip(s.positions, s.weights, strict=True) if w] for s in step]
        for step in zip(*replicas, strict=True)
    ]


def flat(parts: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(parts))


@each_epoch
def test_every_sample_counts_exactly_once(samples: int, replicas: int, batch: int) -> None:
    for lanes in (replicas, lanes_for(replicas)):
        steps = steps_of(Epoch(samples, batch, replicas, lanes))
        assert sorted(flat([flat(step) for step in steps])) == list(range(samples))


@each_epoch
def test_all_replicas_take_the_same_steps_and_only_an_empty_batch_is_padded(
    samples: int, replicas: int, batch: int
) -> None:
    """An empty batch makes a batch normalisation divide by zero, and padding counts in it."""
    epoch = Epoch(samples, batch, replicas, replicas)
    assert epoch.steps == -(-samples // batch)
    by_replica = [list(shares(epoch, replica, epoch.steps)) for replica in range(replicas)]
    everything = list(itertools.chain.from_iterable(by_replica))
    assert len(everything) == replicas * epoch.steps
    assert {tuple(share.weights) for share in everything if 0.0 in share.weights} <= {(0.0,)}
    assert all(share.positions for share in everything)
    assert epoch.idle == any(0.0 in share.weights for share in everything)
    for step in zip(*by_replica, strict=True):
        assert {share.total for share in step} == {round(sum(sum(s.weights) for s in step))}


@each_epoch
def test_the_samples_of_a_step_do_not_depend_on_the_number_of_replicas(
    samples: int, replicas: int, batch: int
) -> None:
    alone = [set(flat(step)) for step in steps_of(Epoch(samples, batch, 1, 1))]
    together = [set(flat(step)) for step in steps_of(Epoch(samples, batch, replicas, replicas))]
    assert together == alone


@bounded(40)
@given(
    samples=SAMPLES, replicas=REPLICAS, batch=BATCHES, lanes=st.sampled_from([1, 8, 16]),
    passed=st.integers(0, 4),
)  # fmt: skip
def test_an_epoch_continues_where_it_was_interrupted(
    samples: int, replicas: int, batch: int, lanes: int, passed: int
) -> None:
    whole = steps_of(Epoch(samples, batch, replicas, lanes))
    if passed < len(whole):
        rest = steps_of(Epoch(samples, batch, replicas, lanes, start=passed * batch))
        assert rest == whole[passed:]


@bounded(60)
@given(
    samples=SAMPLES, replicas=REPLICAS, batch=BATCHES, lanes=st.integers(1, 17),
    start=st.integers(0, 40),
)  # fmt: skip
def test_a_position_belongs_to_its_lane_and_the_lane_to_a_replica(
    samples: int, replicas: int, batch: int, lanes: int, start: int
) -> None:
    epoch = Epoch(samples, batch, replicas, lanes, start)
    for step in range(epoch.steps):
        owner = {p: p % lanes % replicas for p in epoch.positions(step)}
        for replica in range(replicas):
            owned = [p for p, number in owner.items() if number == replica]
            assert list(epoch.share(step, replica)) == owned


def test_a_share_is_padded_to_one_sample_and_no_more() -> None:
    lengths = [Epoch(5, 4, 4, 4).length(step, replica) for step in (0, 1) for replica in range(4)]
    assert lengths == [1] * 8 and Epoch(1, 1, 1, 1).length(0, 0) == 1


def test_the_issue_s_example_of_steps() -> None:
    assert Epoch(5656, 64, 1, 1).steps == 89
    assert Epoch(5656, 2 * 64, 2, 2).steps == 45


def test_the_order_is_the_same_on_every_machine() -> None:
    assert list(shuffled(8, epoch=0, seed=0)) == [0, 2, 1, 4, 6, 7, 3, 5]


def test_another_epoch_and_another_seed_give_other_orders() -> None:
    orders = {tuple(shuffled(50, epoch=e, seed=s)) for e in range(3) for s in range(3)}
    assert len(orders) == 9


@pytest.mark.parametrize(
    ("replicas", "lanes"), [(1, 8), (2, 8), (3, 3), (4, 8), (6, 6), (8, 8), (16, 16)]
)
def test_there_are_eight_lanes_where_the_replicas_share_them_evenly(
    replicas: int, lanes: int
) -> None:
    assert lanes_for(replicas) == lanes


@pytest.mark.parametrize(("samples", "lanes"), [(1000, 8), (1003, 8), (5, 8), (17, 16), (9, 3)])
def test_lanes_are_consecutive_and_as_long_as_their_positions(samples: int, lanes: int) -> None:
    end = 0
    for lane in range(lanes):
        assert lane_begin(samples, lanes, lane) == end
        positions = [p for p in range(samples) if p % lanes == lane]
        assert lane_length(samples, lanes, lane) == len(positions)
        end += len(positions)
    assert end == samples
