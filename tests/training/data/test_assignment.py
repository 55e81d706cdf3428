"""Which sample goes where: exact, without TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded

from training.data.assignment import (
    Epoch,
    Span,
    cut_lanes,
    lanes_for,
    read_lane,
    shares,
    shuffled,
    take,
)

REPLICAS = st.integers(1, 17)
BATCHES = st.integers(1, 40)  # global ones
SAMPLES = st.integers(1, 150)
COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any)  # records of shards


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
            own = [p for p, number in owner.items() if number == replica]
            assert list(epoch.share(step, replica)) == own


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


# --- Lanes ---------------------------------------------------------------------------------


def spans_of(counts: list[int]) -> list[Span]:
    numbers = [0, *itertools.accumulate(counts)]
    return [Span(i, 0, n, numbers[i]) for i, n in enumerate(counts)]


def global_batches(
    counts: list[int], replicas: int, batch: int, *, epoch: int = 0, window: int = 4
) -> list[list[int]]:
    """Per step the sample numbers of all replicas, each replica reading only its own lanes."""
    samples, lanes = sum(counts), lanes_for(replicas)
    cut = cut_lanes(spans_of(counts), lanes)
    plan = Epoch(samples, batch, replicas, lanes)
    steps: list[list[int]] = [[] for _ in range(plan.steps)]
    for replica in range(replicas):
        readers = {
            lane: iter(
                read_lane(cut[lane], lane=lane, epoch=epoch, seed=3, window=window).numbers()
            )
            for lane in range(lanes)
            if lane % replicas == replica
        }
        for step in range(plan.steps):
            steps[step] += [next(readers[p % lanes]) for p in plan.share(step, replica)]
    return steps


@pytest.mark.parametrize(
    ("replicas", "lanes"), [(1, 8), (2, 8), (3, 3), (4, 8), (6, 6), (8, 8), (16, 16)]
)
def test_there_are_eight_lanes_where_the_replicas_share_them_evenly(
    replicas: int, lanes: int
) -> None:
    assert lanes_for(replicas) == lanes


@bounded()
@given(counts=COUNTS, skip=st.integers(0, 500), count=st.integers(0, 500))
def test_spans_are_cut_at_any_record(counts: list[int], skip: int, count: int) -> None:
    spans = spans_of(counts)
    taken = take(spans, skip, count)
    records = [(s.shard, s.first + i, s.number + i) for s in spans for i in range(s.count)]
    assert [(s.shard, s.first + i, s.number + i) for s in taken for i in range(s.count)] == records[
        skip : skip + count
    ]
    assert all(span.count for span in taken)


@bounded(25)
@given(counts=COUNTS, replicas=st.integers(1, 16), each=st.integers(1, 3))
@example(counts=[1000], replicas=16, each=2)
@example(counts=[3, 500, 40, 1, 0, 456], replicas=7, each=2)
def test_every_record_of_uneven_shards_is_read_exactly_once(
    counts: list[int], replicas: int, each: int
) -> None:
    read = flat(global_batches(counts, replicas, lanes_for(replicas) * each))
    assert sorted(read) == list(range(sum(counts)))


@bounded(15)
@given(counts=COUNTS, replicas=st.sampled_from([2, 4, 8]))
@example(counts=[125] * 8, replicas=8)
def test_sizes_that_divide_8_give_the_same_global_batches(counts: list[int], replicas: int) -> None:
    alone = [sorted(step) for step in global_batches(counts, 1, 16)]
    together = [sorted(step) for step in global_batches(counts, replicas, 16)]
    assert together == alone


def test_every_global_batch_takes_an_equal_part_of_each_lane() -> None:
    cut = cut_lanes(spans_of([1000]), 8)
    of = {
        number: lane
        for lane, spans in enumerate(cut)
        for span in spans
        for number in range(span.number, span.number + span.count)
    }
    for step in global_batches([1000], 1, 40)[:-1]:
        assert [[of[n] for n in step].count(lane) for lane in range(8)] == [5] * 8


@bounded(50)
@given(counts=COUNTS, window=st.integers(1, 9), start=st.integers(0, 100))
@example(counts=[20, 3, 40], window=4, start=63)
def test_a_lane_continues_at_the_exact_record(counts: list[int], window: int, start: int) -> None:
    spans = spans_of(counts)
    whole = read_lane(spans, lane=1, epoch=2, seed=0, window=window).numbers()
    rest = read_lane(spans, lane=1, epoch=2, seed=0, window=window, start=start).numbers()
    assert rest == whole[start:]


def test_windows_of_two_shuffle_the_shards_too() -> None:
    read = read_lane(spans_of([2] * 20), lane=0, epoch=0, seed=0, window=2)
    assert [span.shard for span in read.spans] != list(range(20))


def test_shards_and_windows_are_shuffled_anew_in_every_epoch() -> None:
    orders = [global_batches([10] * 30, 1, 8, epoch=epoch) for epoch in (0, 1)]
    assert orders[0] != orders[1]
    spans = spans_of([4] * 20)
    read = read_lane(spans, lane=0, epoch=0, seed=0, window=4)
    assert [span.shard for span in read.spans] != list(range(20))
    assert any(list(order) != sorted(order) for order in read.orders)


def test_without_a_window_records_keep_their_order() -> None:
    spans = spans_of([4, 5])
    assert read_lane(spans, lane=0, epoch=9, seed=1, window=1).numbers() == list(range(9))
    assert read_lane(spans, lane=0, epoch=9, seed=1, window=1, start=6).numbers() == [6, 7, 8]
