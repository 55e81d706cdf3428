"""The order in which the records of shards are read: exact, without TensorFlow."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded

np = pytest.importorskip("numpy", reason="scripts/setup --dev installs it")

from training.data.assignment import Epoch, lane_begin, lane_length, lanes_for  # noqa: E402
from training.data.shards.lanes import (  # noqa: E402
    DRAWS,
    Keyed,
    Lane,
    Spans,
    argsort,
    tracks_of,
)

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any)  # records of shards
ORDERS = st.sampled_from([1, 2])
UNEVEN = [3, 300, 0, 40, 1, 456, 100, 100]  # a thousand records
WINDOW = 24
GOLDEN_1 = [9, 10, 8, 11, 14, 12, 13, 5, 7, 0, 6, 1, 2, 3, 4]
GOLDEN_2 = [0, 11, 4, 8, 12, 1, 9, 5, 2, 13, 10, 6, 14, 3, 7]


def cut(counts: list[int], lanes: int, lane: int) -> Spans:
    begin = lane_begin(sum(counts), lanes, lane)
    return Spans.of_shards(counts).take(begin, lane_length(sum(counts), lanes, lane))


def read(
    spans: Spans, *, lane: int = 0, epoch: int = 0, window: int = 4, start: int = 0, order: int = 2
) -> Lane:
    draws = DRAWS[order](3, epoch, lane)
    return Lane(spans, draws, tracks=tracks_of(order, window), window=window, start=start)


def trained(
    counts: list[int], replicas: int, batch: int, *, start: int = 0, **how: Any
) -> dict[int, int]:
    """The sample number at each position, each replica reading only its own lanes."""
    lanes = lanes_for(replicas)
    plan = Epoch(sum(counts), batch, replicas, lanes, start)
    seen: dict[int, int] = {}
    for replica in range(replicas):
        readers = {}
        for lane in (lane for lane in range(lanes) if lane % replicas == replica):
            passed = lane_length(start, lanes, lane)
            shards = cut(counts, lanes, lane)
            readers[lane] = read(shards, lane=lane, start=passed, **how).numbers()
        for step in range(plan.steps):
            seen |= {p: next(readers[p % lanes]) for p in plan.share(step, replica)}
        assert [next(reader, None) for reader in readers.values()] == [None] * len(readers)
    return dict(sorted(seen.items()))


def of_rows(spans: Spans) -> list[tuple[int, int, int]]:
    return [(s.shard, s.first + i, s.number + i) for s in spans for i in range(s.count)]


@bounded()
@given(counts=COUNTS, skip=st.integers(0, 500), count=st.integers(0, 500))
def test_spans_are_cut_at_any_record(counts: list[int], skip: int, count: int) -> None:
    rows = [(shard, first) for shard, n in enumerate(counts) for first in range(n)]
    records = [(*row, number) for number, row in enumerate(rows)]
    whole = Spans.of_shards(counts)
    taken = whole.take(skip, count)
    assert of_rows(taken) == records[skip : skip + count]
    assert all(span.count for span in taken)
    assert of_rows(whole) == records, "the spans that were cut are as before"


@bounded()
@given(counts=COUNTS, held=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))))
def test_a_stretch_is_held_out_of_each_span(counts: list[int], held: list[tuple[int, int]]) -> None:
    whole = Spans.of_shards(counts)
    pairs = itertools.islice(itertools.chain(held, itertools.repeat((0, 0))), len(whole))
    begins, sizes = [], []
    for span, (begin, size) in zip(whole, pairs, strict=True):
        sizes.append(min(size, span.count))
        begins.append(min(begin, span.count - sizes[-1]))
    rest, out = whole.without(np.array(begins), np.array(sizes))
    assert sorted(of_rows(rest) + of_rows(out)) == of_rows(whole)
    assert out.records == sum(sizes) and all(span.count for span in [*rest, *out])
    places = zip(whole, begins, sizes, strict=True)
    held_rows = [n for s, b, size in places for n in range(s.number + b, s.number + b + size)]
    assert [number for *_, number in of_rows(out)] == held_rows


@pytest.mark.parametrize(
    ("replicas", "order"), [*((size, 2) for size in range(1, 17)), (1, 1), (3, 1), (16, 1)]
)
def test_every_record_is_read_once_also_after_a_resume_at_every_edge_of_a_window(
    replicas: int, order: int
) -> None:
    lanes = lanes_for(replicas)
    batch, how = lanes * 3, {"window": WINDOW, "order": order}
    whole = trained(UNEVEN, replicas, batch, **how)
    assert sorted(whole.values()) == list(range(1000)) and list(whole) == list(range(1000))
    edges = [edge * lanes + lane for edge in range(0, 1000, WINDOW) for lane in (0, lanes - 1)]
    for start in sorted({edge + beside for edge in edges for beside in (-1, 0, 1)}):
        if 0 <= start < 1000:
            rest = trained(UNEVEN, replicas, batch, start=start, **how)
            assert rest == {p: n for p, n in whole.items() if p >= start}, start


@bounded(25)
@given(counts=COUNTS, replicas=st.integers(1, 16), each=st.integers(1, 3), order=ORDERS)
@example(counts=[1000], replicas=16, each=2, order=2)
@example(counts=[3, 500, 40, 1, 0, 456], replicas=7, each=2, order=2)
def test_every_record_of_uneven_shards_is_read_exactly_once(
    counts: list[int], replicas: int, each: int, order: int
) -> None:
    order_read = trained(counts, replicas, lanes_for(replicas) * each, order=order)
    assert sorted(order_read.values()) == list(range(sum(counts)))


@bounded(15)
@given(counts=COUNTS, replicas=st.sampled_from([2, 4, 8]), order=ORDERS)
@example(counts=[125] * 8, replicas=8, order=2)
def test_sizes_that_divide_8_give_the_same_samples_at_each_position(
    counts: list[int], replicas: int, order: int
) -> None:
    assert trained(counts, replicas, 16, order=order) == trained(counts, 1, 16, order=order)


def test_every_global_batch_takes_an_equal_part_of_each_lane() -> None:
    of = {n: lane for lane in range(8) for *_, n in of_rows(cut([1000], 8, lane))}
    for position, number in trained([1000], 1, 40).items():
        assert of[number] == position % 8


@bounded(50)
@given(counts=COUNTS, window=st.integers(1, 9), start=st.integers(0, 100), order=ORDERS)
@example(counts=[20, 3, 40], window=4, start=63, order=1)
@example(counts=[16], window=4, start=15, order=2)  # tracks of four records, windows of one each
@example(counts=[18], window=4, start=17, order=2)  # the last window has two tracks
def test_a_lane_continues_at_the_exact_record(
    counts: list[int], window: int, start: int, order: int
) -> None:
    spans = Spans.of_shards(counts)
    whole = list(read(spans, lane=1, epoch=2, window=window, order=order).numbers())
    assert sorted(whole) == list(range(sum(counts)))
    lane = read(spans, lane=1, epoch=2, window=window, start=start, order=order)
    assert list(lane.numbers()) == whole[start:]


@bounded(30)
@given(counts=COUNTS, window=st.integers(1, 9), start=st.integers(0, 100), order=ORDERS)
def test_what_is_read_of_the_tracks_is_what_the_windows_order(
    counts: list[int], window: int, start: int, order: int
) -> None:
    """As the input pipeline does it: windows take the next records of each track."""
    lane = read(Spans.of_shards(counts), window=window, start=start, order=order)
    tracks = [iter(of_rows(lane.reads(number))) for number in range(len(lane.tracks))]
    seen = []
    for shuffle in lane.orders():
        taken = [row for track in tracks for row in itertools.islice(track, lane.stretch)]
        seen += [taken[index][2] for index in shuffle]
    assert seen == list(lane.numbers())
    assert [next(track, None) for track in tracks] == [None] * len(tracks)


def test_a_window_mixes_several_shards_and_has_no_more_records_than_it_may() -> None:
    shards = Spans.of_shards([10_000] * 40)
    for window, several in ((512, 4), (7, 4), (3, 3), (2, 2)):
        numbers = list(itertools.islice(read(shards, window=window).numbers(), window))
        assert len({number // 10_000 for number in numbers}) == several
        assert all(len(made) <= window for made in read(shards, window=window).orders())
    first = list(itertools.islice(read(shards, window=512, order=1).numbers(), 512))
    assert len({number // 10_000 for number in first}) == 1, "as before"


def test_shards_and_windows_are_shuffled_anew_in_every_epoch_lane_and_seed() -> None:
    spans, orders = Spans.of_shards([4] * 40), set()
    for seed, epoch, lane in itertools.product((0, 1, 1 << 64), (0, 1), (0, 1)):
        made = Lane(spans, Keyed(seed, epoch, lane), tracks=4, window=8)
        pieces = tuple(made.tracks[0].number.tolist())
        windows = [tuple(order.tolist()) for order in made.orders()]
        assert len(set(windows)) > 15 and list(pieces) != sorted(pieces)
        orders.add((pieces, windows[0], windows[1]))
    assert len(orders) == 12
    assert len({each for parts in orders for each in parts}) == 36


@pytest.mark.parametrize("order", [1, 2])
def test_without_a_window_records_keep_their_order(order: int) -> None:
    spans = Spans.of_shards([4, 0, 5])
    assert list(read(spans, window=1, order=order).numbers()) == list(range(9))
    assert list(read(spans, window=1, order=order, start=6).numbers()) == [6, 7, 8]


def test_the_orders_are_the_same_on_every_machine_and_in_every_version() -> None:
    """Otherwise a checkpoint would continue with other samples."""
    orders = {
        order: list(read(Spans.of_shards([5, 3, 7]), lane=2, epoch=1, order=order).numbers())
        for order in (1, 2)
    }
    assert orders == {1: GOLDEN_1, 2: GOLDEN_2}


def test_the_argsort_is_numpy_s() -> None:
    drawn = np.random.Philox(1).random_raw(5000)
    assert (argsort(drawn) == np.argsort(drawn, kind="stable")).all()
    assert argsort(np.zeros(70, np.uint64)).tolist() == list(range(70)), "equal ones stay in order"
    assert not argsort(drawn[:0]).size


def test_an_epoch_over_a_billion_records_continues_with_one_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is made for the windows before, and nothing is kept for a record."""
    drawn: list[int] = []
    shuffle = Keyed._shuffle

    def noted(self: Keyed, number: int, size: int) -> Any:
        drawn.append(size)
        return shuffle(self, number, size)

    monkeypatch.setattr(Keyed, "_shuffle", noted)
    counts, start = [100_000] * 10_000, 10**9 // 16
    spans = Spans.of_shards(counts).take(lane_begin(10**9, 8, 3), lane_length(10**9, 8, 3))
    lane = Lane(spans, Keyed(3, 0, 3), tracks=4, window=10_000, start=start)
    numbers = lane.numbers()
    first = [next(numbers) for _ in range(5_000)]  # it continues in the middle of a window
    assert len(set(first)) == 5_000 and min(first) >= 375 * 10**6 and max(first) < 500 * 10**6
    assert drawn == [1_250, 10_000]
