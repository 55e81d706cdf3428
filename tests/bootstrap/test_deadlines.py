"""Both deadlines of a machine: what is decided. tests/e2e/test_machine_timer.py runs the timer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.clouds.base import MISSING, UNKNOWN, Deadline, most_urgent
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory.document import from_document
from bootstrap.lifecycle import deadlines, timer
from bootstrap.runs.launch import StopPolicy
from bootstrap.ssh import connect
from bootstrap.ssh.session import ConnectionLost
from stacks import deadline as of_stacks

CASES = Path(__file__).parents[1] / "cases"
GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
ONE, TWO = (host.name for host in GOLDEN.hosts)
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def hours_from_now(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def about(at: datetime | None, hours: float) -> bool:
    return at is not None and abs((at - hours_from_now(hours)).total_seconds()) < 10


class Cloud:
    """A cloud with this deadline for each machine; it notes how often it was moved."""

    def __init__(self, hours: float | None, **words: Any) -> None:
        at = None if hours is None else hours_from_now(hours)
        self.found = Deadline("scheduled-stop", at, "armed", "here", **words)
        self.moved: list[float] = []

    def deadlines(self) -> dict[str, Deadline]:
        return {ONE: self.found, TWO: self.found}

    def set_deadline(self, hours: float) -> None:
        self.moved.append(hours)
        self.found = replace(self.found, at=hours_from_now(hours))


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> dict[str, datetime]:
    """Timers that were moved, by host; the sessions of these tests are host names."""
    found: dict[str, datetime] = {}
    monkeypatch.setattr(timer, "move", found.__setitem__)
    return found


def test_the_tool_is_the_one_that_stacks_install() -> None:
    script = of_stacks.SCRIPT.read_text()
    assert timer.TOOL == of_stacks.TOOL and f"TOOL={timer.TOOL}\n" in script
    assert f"-ge {timer.LEAST} ]" in script and f"MOST={timer.MOST} " in script


@pytest.mark.parametrize(
    ("output", "state", "minutes", "reason"),
    [
        ("stops=1000600 now=1000000 late=no timer=active\n", "armed", 10, ""),
        ("stops=1000600 now=1000000 late=yes timer=active\n", "past", 10, timer.LATE),
        (
            "stops=1000600 now=1000000 late=no timer=inactive\n",
            MISSING,
            10,
            "its systemd timer is inactive",
        ),
        ("sh: 1: not found\n", MISSING, None, "the machine has no timer"),
        ("stops=99999999999999 now=1 late=no timer=active", MISSING, None, "has no timer"),
        ("stops=1 now=1 late=no timer=\x1b[31mactive", MISSING, None, "has no timer"),
    ],
)
def test_what_a_machine_answers(output: str, state: str, minutes: int | None, reason: str) -> None:
    found = timer.parse(output, NOW)
    assert found.state == state and reason in found.reason
    assert found.at == (NOW + timedelta(minutes=minutes) if minutes else None)


def test_a_machine_without_an_answer_is_unknown() -> None:
    class Silent:
        def sh(self, *_: Any, silence: float) -> str:
            raise ConnectionLost(f"silent for {silence:.0f} s")

    found = timer.read(Silent())  # type: ignore[arg-type]
    assert (found.state, found.reason) == (UNKNOWN, "silent for 20 s")


def test_what_is_not_armed_is_urgent_then_what_is_early() -> None:
    def at(hours: float | None, state: str = "armed") -> Deadline:
        return Deadline("k", None if hours is None else NOW + timedelta(hours=hours), state, "s")

    order = [at(9, MISSING), at(1), at(2), at(None)]
    for first in range(len(order)):
        assert most_urgent(order[first:][::-1]) == order[first]
    assert most_urgent([]) is None


def test_extend_refuses_what_passes_a_deadline_that_cannot_move(
    moved: dict[str, datetime],
) -> None:
    """Google's maxRunDuration of a running machine."""
    cloud, printed = Cloud(3, fixed=True), list[str]()
    with pytest.raises(
        UsageError, match="scheduled-stop can only change while a machine"
    ) as refused:
        deadlines.extend(GOLDEN, GOLDEN, cloud, 4, printed.append)  # type: ignore[arg-type]
    assert refused.value.hint == "fab stop, then fab start --hours 4"
    assert not printed and not cloud.moved and not moved


def test_extend_moves_the_timers_up_to_a_deadline_that_cannot_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud, printed, at = Cloud(3, fixed=True), list[str](), list[datetime]()
    monkeypatch.setattr(deadlines, "move_timers", lambda _, when, __: at.append(when))
    deadlines.extend(GOLDEN, GOLDEN, cloud, 2, printed.append)  # type: ignore[arg-type]
    assert about(at[0], 2) and not cloud.moved
    assert "it stays as it is while a machine runs" in printed[0]
    deadlines.extend(GOLDEN, None, Cloud(3), 2, printed.append)  # type: ignore[arg-type]
    assert len(at) == 1, "no machine runs"


def cover(cloud: Cloud, max_hours: float | None, **found: Deadline) -> list[str]:
    """Before a run on two machines whose timers are these."""
    printed, policy = list[str](), StopPolicy(max_hours=max_hours)
    timers = {ONE: found["one"], TWO: found.get("two", found["one"])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timer, "read", lambda name: timers[name])
        patch.setattr(
            connect,
            "everywhere",
            lambda opened, work, what: {name: work(name) for name in opened},
        )
        patch.setattr(deadlines, "cloud_of", lambda _: cloud)
        cluster: Any = SimpleNamespace(inventory=GOLDEN, sessions={ONE: ONE, TWO: TWO})
        deadlines.cover_run(cluster, policy, printed.append)
    return printed


def test_extend_moves_the_timers_also_where_the_cloud_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a schedule that is missing: the machine's own timer is the one that is left."""
    cloud, at = Cloud(3), list[datetime]()

    def refuse(_: float) -> None:
        raise RailheadError("no schedule")

    monkeypatch.setattr(cloud, "set_deadline", refuse)
    monkeypatch.setattr(deadlines, "move_timers", lambda _, when, __: at.append(when))
    with pytest.raises(RailheadError, match="no schedule"):
        deadlines.extend(GOLDEN, GOLDEN, cloud, 2, lambda _: None)  # type: ignore[arg-type]
    assert about(at[0], 2)


def armed(hours: float, state: str = "armed") -> Deadline:
    return Deadline(timer.KIND, hours_from_now(hours), state, timer.SOURCE)


def test_a_run_moves_both_deadlines_where_max_hours_goes_beyond_them(
    moved: dict[str, datetime],
) -> None:
    cloud = Cloud(8)
    assert "for --max-hours" in cover(cloud, 12, one=armed(8), two=armed(20))[0]
    assert cloud.moved == [13.5]
    assert list(moved) == [ONE] and about(moved[ONE], 13.5)


@pytest.mark.parametrize("max_hours", [None, 2])
def test_a_run_within_its_deadlines_moves_none(
    moved: dict[str, datetime], max_hours: float | None
) -> None:
    cloud = Cloud(8)
    assert cover(cloud, max_hours, one=armed(8)) == [] and not cloud.moved and not moved


def test_a_run_moves_the_timer_of_a_machine_that_started_late(moved: dict[str, datetime]) -> None:
    """Somebody started it in the cloud's console: it would power itself off in minutes."""
    cover(Cloud(6, fixed=True), None, one=armed(0.2, "past"))
    assert set(moved) == {ONE, TWO} and all(about(at, 6) for at in moved.values())
    cover(Cloud(None), None, one=armed(0.2, "past"))
    assert all(about(at, 8) for at in moved.values()), "the length of the stack"


def test_a_run_warns_of_a_machine_without_a_timer(moved: dict[str, datetime]) -> None:
    none = Deadline(timer.KIND, None, MISSING, timer.SOURCE, "the machine has no timer")
    printed = cover(Cloud(8), None, one=none, two=armed(8))
    assert printed[0].startswith(f"[{ONE}] warning: the machine has no timer") and len(printed) == 1
    assert not moved
