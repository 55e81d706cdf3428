"""Waiting until a cloud has started or stopped its machines; the time passes by waiting alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bootstrap.clouds.base import InstanceState, wait_for_state
from bootstrap.console.wait import Clock


@dataclass
class Slow:
    """A cloud whose one machine changes its state at given seconds; the time is its own."""

    changes: dict[float, str]
    time: float = 0.0
    certain: bool = False
    requests: list[float] = field(default_factory=list)

    def instance_states(self) -> dict[str, InstanceState]:
        self.requests.append(self.time)
        state = [state for time, state in self.changes.items() if time <= self.time][-1]
        return {"h1": InstanceState(state, None, "Slow", "", certain=self.certain)}

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self._sleep)

    def _sleep(self, seconds: float) -> None:
        assert seconds >= 1, "a cloud is not called all the time"
        self.time += seconds

    def settled(self, *targets: str, **more: Any) -> str:
        output: Any = self
        return wait_for_state(output, targets or ("stopped", "gone"), clock=self.clock, **more)[
            "h1"
        ].state


def test_a_cloud_that_takes_90_seconds_to_stop_is_waited_for() -> None:
    slow = Slow({0: "stopping", 90: "stopped"})
    lines: list[str] = []
    assert slow.settled(report=lines.append) == "stopped"
    assert 90 <= slow.time < 110
    assert lines == ["h1 stopping", "h1 stopped"]


def test_a_cloud_that_never_stops_is_given_up() -> None:
    slow = Slow({0: "stopping"})
    assert slow.settled(limit=300) == "stopping"
    assert 300 <= slow.time < 310


def test_a_machine_that_is_reported_to_be_stopped_and_runs_again_is_not_stopped() -> None:
    slow = Slow({0: "stopping", 20: "stopped", 24: "running"})
    assert slow.settled(limit=60) == "running"


def test_a_machine_that_finds_no_room_is_not_waited_for_to_the_end() -> None:
    slow = Slow({0: "stopped", 10: "starting", 30: "stopped"})
    assert slow.settled("running") == "stopped"
    assert slow.time < 40


def test_a_state_that_was_read_on_this_computer_is_read_once() -> None:
    slow = Slow({0: "stopped"}, certain=True)
    assert slow.settled() == "stopped" and slow.requests == [0.0]
    slow = Slow({0: "stopped"})
    assert slow.settled() == "stopped" and len(slow.requests) == 2
