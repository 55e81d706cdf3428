"""Both deadlines of a machine: what is decided, and that timers are moved over real sessions.
tests/e2e/runs/test_machine_timer.py runs the timer."""

from __future__ import annotations

import copy
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import CASES
from standins import registered_cloud

from bootstrap.cli import status
from bootstrap.clouds.base import MISSING, UNKNOWN, Deadline, most_urgent
from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.errors import HostsFailed, RailheadError, UsageError
from bootstrap.host.run import time_left
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import deadlines, timer
from bootstrap.lifecycle.deadlines import NewDeadline
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.runs.launch import StopPolicy
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.local_session import LocalSession, local_session
from bootstrap.ssh.session import ConnectionLost
from railhead.documents.cluster import ClusterPrice
from railhead.documents.options.hosts import ExtendOptions
from stacks.timer import deadline as of_stacks

GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
ONE, TWO = (host.name for host in GOLDEN.hosts)
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
TOOL = """#!/bin/sh
case $1 in
show) exec cat "$HOME/timer" ;;
set)
    echo "$2" > "$HOME/moved"
    now=$(date +%s)
    echo "stops=$((now + $2)) now=$now late=no timer=active" > "$HOME/timer"
    [ ! -e "$HOME/other" ] || mv "$HOME/other" "$HOME/timer" # another command moves it next
    ;;
esac
"""


def hours_from_now(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def about(time: datetime | None, hours: float) -> bool:
    return time is not None and abs((time - hours_from_now(hours)).total_seconds()) < 10


class Cloud:
    """A cloud with this deadline for each machine; it notes how often it was moved."""

    def __init__(self, hours: float | None, *, refuses: bool = False, fixed: bool = False) -> None:
        at = None if hours is None else hours_from_now(hours)
        self.found = Deadline("scheduled-stop", at, "armed", "here", fixed=fixed)
        self.refuses, self.moved = refuses, list[float]()

    def deadlines(self) -> dict[str, Deadline]:
        return {ONE: self.found, TWO: self.found}

    def set_deadline(self, hours: float) -> None:
        if self.refuses:
            raise RailheadError("no schedule")
        self.moved.append(hours)
        self.found = replace(self.found, at=hours_from_now(hours))


@dataclass(frozen=True)
class Timers:
    """The timers of two machines: each machine's tool reads and writes files in its home."""

    homes: dict[str, Path]

    def arm(self, name: str, hours: float, *, late: bool = False, ahead: float = 0) -> None:
        """Set the timer of a machine, whose clock is so many hours ahead of ours."""
        now = int(time.time() + ahead * 3600)
        line = f"stops={now + hours * 3600:.0f} now={now} late={'yes' if late else 'no'}"
        (self.homes[name] / "timer").write_text(f"{line} timer=active\n")

    @property
    def moved(self) -> dict[str, datetime]:
        """Where timers were moved to, by host."""
        files = {name: home / "moved" for name, home in self.homes.items()}
        return {
            name: hours_from_now(int(file.read_text()) / 3600)
            for name, file in files.items()
            if file.exists()
        }


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the tool on the machines; and for sudo, where tests do not run as root."""
    for name, text in (("tool", TOOL), ("sudo", '#!/bin/sh\nshift\nexec "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(timer, "TOOL", str(tmp_path / "tool"))
    return tmp_path / "tool"


@pytest.fixture
def timers(tool: Path, tmp_path: Path) -> Timers:
    """Two homes for sessions with this machine; both timers are armed for 8 hours."""
    created = Timers({name: tmp_path / name for name in (ONE, TWO)})
    for name, home in created.homes.items():
        home.mkdir()
        created.arm(name, 8)
    return created


@pytest.fixture(scope="module")
def two_hosts(home_of_session: Path) -> Iterator[Inventory]:
    """Two SSH hosts of this machine, as machines of a cloud."""
    inventory = local_cluster.start("deadlines", 2)
    hosts = tuple(replace(host, host_key=None) for host in inventory.hosts)
    yield replace(inventory, hosts=hosts, cloud="aws", deadlines=GOLDEN.deadlines)
    local_cluster.destroy("deadlines")


@pytest.fixture
def over_ssh(
    two_hosts: Inventory,
    tool: Path,
    home_of_session: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Timers:
    """Their timers, armed for 3 hours."""
    monkeypatch.setenv("HOME", str(home_of_session))
    created = Timers({host.name: host.home for host in local_cluster.existing("deadlines")})
    for name, home in created.homes.items():
        (home / "moved").unlink(missing_ok=True)
        created.arm(name, 3)
    return created


def test_the_tool_is_the_one_that_stacks_install() -> None:
    script = of_stacks.SCRIPT.read_text()
    assert time_left.TOOL == of_stacks.TOOL and f"TOOL={time_left.TOOL}\n" in script
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
    deadline = timer.parse(output, NOW)
    assert deadline.state == state and reason in deadline.reason
    assert deadline.at == (NOW + timedelta(minutes=minutes) if minutes else None)


def test_a_machine_without_an_answer_is_unknown() -> None:
    class Silent:
        def sh(self, *_: Any, silence: float) -> str:
            raise ConnectionLost(f"silent for {silence:.0f} s")

    deadline = timer.read(Silent())  # type: ignore[arg-type]
    assert (deadline.state, deadline.reason) == (UNKNOWN, "silent for 20 s")


def test_what_is_not_armed_is_urgent_then_what_is_early() -> None:
    def at(hours: float | None, state: str = "armed") -> Deadline:
        return Deadline("k", None if hours is None else NOW + timedelta(hours=hours), state, "s")

    order = [at(9, MISSING), at(1), at(2), at(None)]
    for first in range(len(order)):
        assert most_urgent(order[first:][::-1]) == order[first]
    assert most_urgent([]) is None


def extend(running: Inventory | None, cloud: Any, hours: float) -> list[str]:
    """What `fab extend` prints."""
    printed = list[str]()
    deadlines.extend(running, cloud, NewDeadline(hours), printed.append)
    return printed


@pytest.mark.parametrize(
    ("typed", "present", "later"),
    [("5", 8, -3), ("5h", 8, -3), ("+5", 8, 5), ("+5h", 8, 5), ("+30m", 8, 0.5), ("9", 8, 1),
     ("8", 8, 0), ("+2", -1, 3)],
)  # fmt: skip
def test_extend_shows_both_times_and_an_earlier_one_needs_consent(
    typed: str, present: float, later: float
) -> None:
    questions, printed = list[str](), list[str]()
    cloud: Any = Cloud(present)
    earlier = cloud.found.at
    new = NewDeadline.read(typed)
    deadlines.extend(None, cloud, new, printed.append, agree=questions.append)
    assert about(cloud.found.at, present + later)
    times = [f"{at:%Y-%m-%d %H:%M}" for at in (earlier, cloud.found.at)]
    assert all(time in printed[0] for time in times) or present < 0
    assert bool(questions) is (later < 0)


def test_an_earlier_deadline_that_is_refused_changes_nothing() -> None:
    def no(question: str) -> None:
        raise UsageError(question)

    cloud: Any = Cloud(8)
    with pytest.raises(UsageError, match="which is earlier"):
        deadlines.extend(None, cloud, NewDeadline(5), lambda _: None, agree=no)
    assert not cloud.moved


@pytest.mark.parametrize("typed", [None, "", "+", "x", "++4", "-4", "0", "+0.01", "169", "+161"])
def test_a_deadline_out_of_bounds_is_refused(typed: str | None) -> None:
    """From now, at most a week; also with what is added."""
    cloud: Any = Cloud(8)
    with pytest.raises(UsageError, match="--hours"):
        deadlines.extend(None, cloud, NewDeadline.read(typed), lambda _: None)
    assert not cloud.moved


def test_extend_refuses_what_passes_a_deadline_that_cannot_move() -> None:
    """Google's maxRunDuration of a running machine."""
    cloud = Cloud(3, fixed=True)
    with pytest.raises(
        UsageError, match="scheduled-stop can only change while a machine"
    ) as refused:
        extend(GOLDEN, cloud, 4)  # no machine of it is reached: their timers come last
    assert refused.value.hint == "fab stop, then fab start --hours 4"
    assert not cloud.moved


def test_without_a_running_machine_only_the_deadline_of_the_cloud_moves() -> None:
    cloud = Cloud(3)
    extend(None, cloud, 2)
    assert cloud.moved == [2]


@pytest.mark.root
def test_extend_moves_the_timers_up_to_a_deadline_that_cannot_move(
    two_hosts: Inventory, over_ssh: Timers
) -> None:
    cloud = Cloud(3, fixed=True)
    printed = extend(two_hosts, cloud, 2)
    assert not cloud.moved and all(about(time, 2) for time in over_ssh.moved.values())
    assert set(over_ssh.moved) == set(two_hosts.names)
    assert "it stays as it is while a machine runs" in printed[1]


@pytest.mark.root
def test_extend_moves_the_timers_also_where_the_cloud_refuses(
    two_hosts: Inventory, over_ssh: Timers
) -> None:
    """As with a schedule that is missing: the machine's own timer is the one that is left."""
    with pytest.raises(RailheadError, match="no schedule"):
        extend(two_hosts, Cloud(3, refuses=True), 2)
    assert set(over_ssh.moved) == set(two_hosts.names)
    assert all(about(time, 2) for time in over_ssh.moved.values())


@pytest.mark.root
def test_a_machine_that_is_not_reached_keeps_no_other_timer_from_moving(
    two_hosts: Inventory, over_ssh: Timers
) -> None:
    first, second = two_hosts.hosts
    lost = replace(two_hosts, hosts=(first, replace(second, port=1)))
    with pytest.raises(HostsFailed, match="power off at their old time") as caught:
        extend(lost, Cloud(3), 2)
    assert caught.value.hint == "fab extend --hours HOURS"
    assert set(over_ssh.moved) == {first.name}


@pytest.mark.root
@pytest.mark.parametrize(("by_our_clock", "ahead"), [(1, -3), (4, 0), (4, 3)])
def test_a_wrong_clock_powers_no_machine_off_before_its_cloud_does(
    two_hosts: Inventory, over_ssh: Timers, by_our_clock: float, ahead: float
) -> None:
    """Google stops it 4 hours after its start; our clock is 3 hours ahead, or that of a machine."""
    for name in two_hosts.names:
        over_ssh.arm(name, 3, ahead=ahead)
    cloud: Any = Cloud(by_our_clock, fixed=True)
    deadlines.arm_timers(two_hosts, cloud, None, lambda _: None)
    assert set(over_ssh.moved) == set(two_hosts.names)
    assert all(about(time, 4) for time in over_ssh.moved.values())


class SharedCloud(Cloud):
    """A cloud that two commands move: each call of a command waits until the test lets it."""

    def __init__(self) -> None:
        super().__init__(3)
        self.turns = {name: threading.Semaphore(0) for name in "ab"}
        self.waits = {name: threading.Semaphore(0) for name in "ab"}
        self.written: list[str] = []  # which command wrote, or ended
        self.ended: set[str] = set()

    def run(self, name: str, hours: float) -> threading.Thread:
        """A command in a thread of this name."""

        def body() -> None:
            extend(None, self, hours)
            self.ended.add(name)
            self.written.append(f"{name} ended")
            self.waits[name].release()

        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        assert self.waits[name].acquire(timeout=60)
        return thread

    def step(self, name: str) -> None:
        """Let a command make one call, unless it has ended."""
        if name not in self.ended:
            self.turns[name].release()
            assert self.waits[name].acquire(timeout=60)

    def _turn(self) -> str:
        name = threading.current_thread().name
        self.waits[name].release()
        assert self.turns[name].acquire(timeout=60)
        return name

    def deadlines(self) -> dict[str, Deadline]:
        self._turn()
        return super().deadlines()

    def set_deadline(self, hours: float) -> None:
        self.written.append(self._turn())
        super().set_deadline(hours)


@pytest.mark.parametrize(("a", "b"), [(2, 8), (8, 2)])
def test_two_extends_at_once_end_with_the_later_time(a: float, b: float) -> None:
    """In every order of their calls, except where one has ended before the other writes."""
    at_once = 0
    for turns in itertools.combinations(range(8), 4):
        cloud = SharedCloud()
        threads = [cloud.run("a", a), cloud.run("b", b)]
        for number in range(8):
            cloud.step("a" if number in turns else "b")
        while len(cloud.ended) < 2:
            cloud.step("a")
            cloud.step("b")
        for thread in threads:
            thread.join(timeout=60)
        first_end = min(cloud.written.index(f"{name} ended") for name in "ab")
        if {"a", "b"} <= {*cloud.written[:first_end]}:
            at_once += 1
            assert about(cloud.found.at, 8), (turns, cloud.written)
    assert at_once > 50


@pytest.mark.root
def test_timers_follow_another_command_that_moves_the_cloud_later(
    two_hosts: Inventory, over_ssh: Timers
) -> None:
    cloud = Cloud(3)
    printed = list[str]()

    def other(_: Inventory) -> None:
        cloud.set_deadline(8)

    deadlines.extend(two_hosts, cloud, NewDeadline(2), printed.append, other)  # type: ignore[arg-type]
    assert set(over_ssh.moved) == set(two_hosts.names)
    assert all(about(time, 8) for time in over_ssh.moved.values()) and about(cloud.found.at, 8)
    assert "another command moved them too" in printed[-2]


@pytest.mark.root
def test_timers_end_with_the_later_time_where_the_cloud_cannot_move(
    two_hosts: Inventory, over_ssh: Timers
) -> None:
    """Another command moves one of them later in the meantime."""
    over_ssh.arm(two_hosts.names[0], 2.5)
    home = over_ssh.homes[two_hosts.names[0]]
    (home / "timer").rename(home / "other")
    over_ssh.arm(two_hosts.names[0], 3)
    extend(two_hosts, Cloud(3, fixed=True), 1)
    assert all(about(time, 2.5) for time in over_ssh.moved.values())


@pytest.mark.parametrize(("typed", "passes"), [("4", True), ("6", False), ("+4", False)])
def test_extend_does_not_pass_the_budget_of_a_stack(typed: str, passes: bool) -> None:
    """Five hours are left of it; the present deadline is in two."""
    cloud: Any = Cloud(2)
    new = NewDeadline.read(typed)
    with nullcontext() if passes else pytest.raises(UsageError, match="leaves 5.0 hours"):
        deadlines.extend(None, cloud, new, lambda _: None, hours_left=5.0)
    assert bool(cloud.moved) == passes


@pytest.mark.parametrize(("hours_left", "hours"), [(2.96, 2.9), (0.19, 0.1)])
def test_the_next_command_after_a_budget_is_not_refused(hours_left: float, hours: float) -> None:
    cloud: Any = Cloud(2)
    with pytest.raises(UsageError) as refused:
        deadlines.extend(None, cloud, NewDeadline(3), lambda _: None, hours_left=hours_left)
    new = NewDeadline.read(refused.value.hint.split()[-1])
    deadlines.extend(None, cloud, new, lambda _: None, hours_left=hours_left)
    assert cloud.moved and new.hours == hours


def test_a_budget_in_place_of_hours_is_a_deadline() -> None:
    """10 USD for two machines at 2.5."""
    price = ClusterPrice(2.5, "USD", "list", "2026")
    new = deadlines.new_deadline(ExtendOptions(budget=10))(replace(GOLDEN, price=price))
    assert new == NewDeadline(4.0)
    with pytest.raises(UsageError, match="give one of them"):
        deadlines.new_deadline(ExtendOptions(hours="4h", budget=10))
    with pytest.raises(UsageError, match="no price is recorded"):
        deadlines.new_deadline(ExtendOptions(budget=10))(replace(GOLDEN, price=None))


@contextmanager
def sessions_with(timers: Timers) -> Iterator[dict[str, LocalSession]]:
    """A session for each machine's home, by host."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        sessions = {}
        for name, home in timers.homes.items():
            patch.setenv("HOME", str(home))
            sessions[name] = stack.enter_context(local_session())
            sessions[name].host = replace(sessions[name].host, name=name)
        yield sessions


def test_status_has_the_timer_of_each_machine_and_names_what_it_does_not_know(
    timers: Timers, capsys: pytest.CaptureFixture[str]
) -> None:
    (timers.homes[TWO] / "timer").write_text("sh: 1: not found\n")
    lost = replace(GOLDEN.hosts[0], name="lost", address="203.0.113.99")
    inventory = replace(GOLDEN, hosts=(*GOLDEN.hosts, lost))
    report = status.StatusReport(ClusterStatus(inventory, {}, "aws"))
    with sessions_with(timers) as sessions:
        known: Any = Sessions(inventory, sessions, {"lost": ConnectionLost("silent")})
        status._show_timers(known, report)
    armed, missing, warning, unknown = capsys.readouterr().out.splitlines()
    assert armed.startswith(f"[{ONE}] deadline timer: armed, 20")
    assert missing.startswith(f"[{TWO}] deadline timer: MISSING")
    assert warning.startswith(f"[{TWO}] warning: the machine has no timer")
    assert unknown == "[lost] deadline timer: UNKNOWN: the machine cannot be reached"
    states = [(deadline.host, deadline.kind, deadline.state) for deadline in report.deadlines]
    assert states == [(ONE, "timer", "armed"), (TWO, "timer", MISSING)]


def cover(
    timers: Timers, cloud: Cloud, max_hours: float | None, spent_in: float | None = None
) -> list[str]:
    """What is printed before a run on the two machines; its budget is spent in so many hours."""
    spent_at = None if spent_in is None else time.time() + spent_in * 3600
    printed, policy = list[str](), StopPolicy(max_hours=max_hours, spent_at=spent_at)
    with pytest.MonkeyPatch.context() as patch, sessions_with(timers) as sessions:
        registered_cloud.register(patch, "aws", cloud)
        cluster: Any = SimpleNamespace(inventory=GOLDEN, sessions=sessions)
        deadlines.cover_run(cluster, policy, printed.append)
        if spent_at is not None:
            deadlines.limit(cluster, spent_at, printed.append)
    return printed


def test_the_budget_of_a_run_is_the_deadline_of_cloud_and_machines(timers: Timers) -> None:
    """Also when nobody is connected then. A timer before the end of the run moves to the budget's,
    not beyond."""
    cloud = Cloud(8)
    timers.arm(TWO, 2)
    (line,) = cover(timers, cloud, 2.7, spent_in=3)
    assert "then the budget is spent" in line
    assert cloud.moved == [pytest.approx(3, abs=0.01)]
    assert {*timers.moved} == {ONE, TWO} and all(about(time, 3) for time in timers.moved.values())


def test_a_budget_moves_the_timers_where_the_clouds_deadline_is_fixed(timers: Timers) -> None:
    cloud = Cloud(8, fixed=True)
    cover(timers, cloud, 2.7, spent_in=3)
    assert not cloud.moved and {*timers.moved} == {ONE, TWO}
    assert all(about(time, 3) for time in timers.moved.values())


def test_max_hours_move_deadlines_to_the_end_of_the_budget(timers: Timers) -> None:
    cloud = Cloud(8)
    cover(timers, cloud, 11.6, spent_in=12)
    assert cloud.moved == [pytest.approx(12, abs=0.01)]
    assert {*timers.moved} == {ONE, TWO} and all(about(time, 12) for time in timers.moved.values())


def test_max_hours_have_their_time_for_preparing_inside_a_budget(timers: Timers) -> None:
    cloud = Cloud(2.2)
    cover(timers, cloud, 2, spent_in=100)
    assert cloud.moved == [3.5]


def test_a_run_moves_both_deadlines_where_max_hours_goes_beyond_them(timers: Timers) -> None:
    cloud = Cloud(8)
    timers.arm(TWO, 20)
    assert "for --max-hours" in cover(timers, cloud, 12)[0]
    assert cloud.moved == [13.5]
    assert list(timers.moved) == [ONE] and about(timers.moved[ONE], 13.5)


@pytest.mark.parametrize(
    ("max_hours", "spent_in"), [(None, None), (2, None), (None, 9), (None, 300)]
)
def test_a_run_within_its_deadlines_moves_none(
    timers: Timers, max_hours: float | None, spent_in: float | None
) -> None:
    """Nor does a budget, however long it lasts."""
    cloud = Cloud(8)
    assert cover(timers, cloud, max_hours, spent_in) == []
    assert not cloud.moved and not timers.moved


@pytest.mark.parametrize(
    ("hours", "max_hours", "ahead", "until"),
    [(6, None, 0, 6), (1, None, -3, 4), (None, None, 0, 8), (None, 12, 0, 13.5)],
)
def test_a_run_moves_the_timer_of_a_machine_that_started_late(
    timers: Timers, hours: float | None, max_hours: float | None, ahead: float, until: float
) -> None:
    """It was started in the cloud's console, and would power itself off in minutes. Without a time
    of the cloud, the length is that of the stack, and of the run where that is longer. Our clock
    may be 3 hours ahead of Google's and the machine's."""
    for name in timers.homes:
        timers.arm(name, 0.2, late=True, ahead=ahead)
    cover(timers, Cloud(hours, fixed=hours is not None), max_hours)
    assert set(timers.moved) == {ONE, TWO}
    assert all(about(time, until) for time in timers.moved.values())


def test_a_run_moves_nothing_beyond_a_deadline_that_cannot_move(timers: Timers) -> None:
    """The time to prepare its hosts and to fetch its results ends later."""
    cloud = Cloud(8, fixed=True)
    timers.arm(TWO, 2)
    cover(timers, cloud, 7)
    assert not cloud.moved
    assert list(timers.moved) == [TWO] and about(timers.moved[TWO], 8)


class UnevenCloud(Cloud):
    """A cloud whose second machine has other hours."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__(first)
        self.each = {ONE: self.found, TWO: replace(self.found, at=hours_from_now(second))}
        self.names: tuple[str, ...] = (ONE, TWO)

    def of(self, inventory: Inventory) -> UnevenCloud:
        cloud = copy.copy(self)
        cloud.names = inventory.names
        return cloud

    def deadlines(self) -> dict[str, Deadline]:
        return {name: self.each[name] for name in self.names}

    def set_deadline(self, hours: float) -> None:
        for name in self.names:
            self.each[name] = replace(self.each[name], at=hours_from_now(hours))


def test_a_run_moves_no_deadline_earlier(timers: Timers) -> None:
    """One machine has too little time for --max-hours, the other one more than enough."""
    cloud = UnevenCloud(8, 24)
    timers.arm(TWO, 24)
    cover(timers, cloud, 12)
    assert about(cloud.each[ONE].at, 13.5) and about(cloud.each[TWO].at, 24)
    assert set(timers.moved) == {ONE} and about(timers.moved[ONE], 13.5)


def test_machines_run_for_the_shortest_of_their_deadlines() -> None:
    long, short = GOLDEN.deadlines
    short = replace(short, seconds=long.seconds // 2)
    for both in ((long, short), (short, long)):
        hours = deadlines.default_hours(replace(GOLDEN, deadlines=both))
        assert hours == short.seconds / 3600


def test_more_hours_come_after_the_latest_deadline_of_the_machines() -> None:
    """Otherwise the deadline of one of them would move to an earlier time without a question."""
    cloud: Any = UnevenCloud(8, 24)
    deadlines.extend(None, cloud, NewDeadline.read("+4"), lambda _: None)
    assert about(cloud.each[ONE].at, 28) and about(cloud.each[TWO].at, 28)


def test_a_run_warns_of_a_machine_without_a_timer(timers: Timers) -> None:
    (timers.homes[ONE] / "timer").unlink()
    printed = cover(timers, Cloud(8), None)
    assert printed[0].startswith(f"[{ONE}] warning: the machine has no timer") and len(printed) == 1
    assert not timers.moved
