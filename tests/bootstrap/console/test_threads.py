"""Tasks at the same time, within a bound."""

from __future__ import annotations

import threading
import time

from bootstrap.console.threads import all_within


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
