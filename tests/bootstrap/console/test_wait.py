"""Waiting for a condition, within a bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bootstrap.console.wait import Clock, wait_until


class FakeTime:
    """Time that passes only while somebody sleeps, or by `takes` seconds in a check."""

    def __init__(self, takes: float = 0) -> None:
        self.now, self.takes = 100.0, takes
        self.checked: list[float] = []

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def check(self, answers: Iterator[object]) -> object:
        self.checked.append(self.now - 100)
        self.now += self.takes
        return next(answers)


@pytest.mark.parametrize(
    ("answers", "takes", "value", "checked"),
    [
        (["yes"], 0, "yes", [0]),
        ([None, "", 0, "yes"], 0, "yes", [0, 2, 4, 5]),
        ([None] * 4, 0, None, [0, 2, 4, 5]),  # once more at the end of the time
        ([None, None], 9, None, [0]),  # a slow check is not interrupted
    ],
)
def test_a_check_is_repeated_until_it_returns_a_value_or_time_is_over(
    answers: list[object], takes: float, value: object, checked: list[float]
) -> None:
    time, remaining = FakeTime(takes), iter(answers)
    result = wait_until(lambda: time.check(remaining), seconds=5, every=2, clock=time.clock)
    assert result == value
    assert time.checked == checked


def test_an_error_of_the_check_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, seconds=5, every=2, clock=FakeTime().clock)
