"""Tasks at the same time, within a bound and with Ctrl-C."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from standins import ctrl_c

from bootstrap.console import threads
from bootstrap.console.threads import all_within, in_one_thread, in_threads, side_by_side


def test_all_end_and_each_error_is_returned_at_its_place() -> None:
    results: dict[int, int] = {}

    def work(number: int) -> None:
        if number == 2:
            raise ValueError("two")
        results[number] = number

    outcomes = all_within(work, [1, 2, 3], seconds=10)
    assert results == {1: 1, 3: 3}
    assert [type(outcome) for outcome in outcomes] == [type(None), ValueError, type(None)]


def test_what_hangs_is_left_behind_and_what_waits_for_it_is_not_begun() -> None:
    free, begun = threading.Event(), list[int]()

    def hang(number: int) -> None:
        begun.append(number)
        free.wait(60)

    before = time.monotonic()
    outcomes = all_within(hang, [1, 2, 3], seconds=0.1, at_once=2)
    assert time.monotonic() - before < 30
    assert all(isinstance(outcome, TimeoutError) for outcome in outcomes)
    free.set()
    assert sorted(begun) == [1, 2]


def test_the_results_of_threads_are_in_the_order_of_the_items() -> None:
    first = threading.Event()

    def work(number: int) -> int:
        if number:
            first.set()
        else:
            first.wait(60)
        return number * number

    assert in_threads(work, range(9), 2) == [number * number for number in range(9)]
    assert in_threads(work, [], 2) == []


def test_after_an_error_no_other_item_is_started() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        in_threads(work, range(9), 1)
    assert begun == [0, 1, 2]


def test_ctrl_c_ends_work_that_would_never_end() -> None:
    ended: list[int] = []
    both = threading.Barrier(2, timeout=60)

    def work(number: int) -> None:
        if both.wait() == 0:
            ctrl_c.press()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(9), 2)
    assert sorted(ended) == [0, 1]


def test_no_item_is_started_after_ctrl_c_where_an_interrupt_is_lost() -> None:
    """Python ignores it in a `__del__`, for one."""
    begun: list[int] = []
    both = threading.Barrier(2, timeout=60)

    def work(number: int) -> None:
        begun.append(number)
        if number > 1:
            return
        if both.wait() == 0:
            ctrl_c.press()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(9), 2)
    assert sorted(begun) == [0, 1]


WAITS: dict[str, Callable[[Callable[[int], None]], Any]] = {
    "side_by_side": lambda work: side_by_side(work, [1])(),
    "in_threads": lambda work: in_threads(work, [1], 1),
    "all_within": lambda work: all_within(work, [1], seconds=60),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_ctrl_c_just_before_a_wait_is_not_lost(
    wait: Callable[[Callable[[int], None]], Any],
) -> None:
    free = threading.Event()

    def work(_: int) -> None:
        any(free.wait(0.02) for _ in range(1500))

    with pytest.raises(KeyboardInterrupt), ctrl_c.pressed_before_the_wait_in(threads):
        wait(work)
    free.set()


def test_a_result_that_all_threads_need_is_computed_by_one() -> None:
    """The hash of a number is the same in each process, so these share no lock."""
    two = threading.Barrier(2)

    @in_one_thread
    @cache
    def threads_inside(_: int) -> int:
        with contextlib.suppress(threading.BrokenBarrierError):
            two.wait(0.3)
            return 2
        return 1

    assert in_threads(threads_inside, [1] * 4, at_once=4) == [1] * 4
    two.reset()
    assert in_threads(threads_inside, [2, 3], at_once=2) == [2, 2]
