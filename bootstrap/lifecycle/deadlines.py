"""The two deadlines of each cloud machine: its own timer, and that of its cloud.

Both are read where they are kept. They are moved together: by `fab start`, by `fab extend`, and
for a run whose `--max-hours` goes beyond them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from math import floor
from typing import TYPE_CHECKING

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import DeadlineOptions, ExtendOptions
from railhead.documents.options.option import from_texts
from railhead.documents.rule import number_text

from ..clouds.base import MISSING, MOST_HOURS, Cloud, Deadline, cloud_of, most_urgent
from ..console.output import Reporter
from ..console.text import duration
from ..errors import Command, Hint, HostsFailed, RailheadError, UsageError
from ..inventory.hosts import Inventory
from ..ssh import connect
from ..ssh.cluster import ConnectedCluster
from ..ssh.session import Session
from . import timer

if TYPE_CHECKING:
    from ..runs.launch import StopPolicy

DEFAULT_HOURS = 8.0
BEFORE_RUN = 1.0  # hours before --max-hours begin, in which hosts are made ready and get the data
AFTER_RUN = 0.5  # hours after --max-hours, in which results are fetched
SAME_TIME = timedelta(minutes=2)  # two deadlines that are not farther apart count as the same
MOST_MOVES = 3
EXTEND_HINT = Command("extend", hours="HOURS")
TIME = "%Y-%m-%d %H:%M"


def describe(deadline: Deadline, now: datetime | None = None) -> str:
    """One line: kind, state, time, target, reason and source of a deadline."""
    why = f"; {deadline.target}" if deadline.target else ""
    why += f": {deadline.reason}" if deadline.reason else ""
    if deadline.at is None:
        return f"deadline {deadline.kind}: {deadline.state}{why} ({deadline.source})"
    seconds = (deadline.at - (now or datetime.now(timezone.utc))).total_seconds()
    when = f"{deadline.at:%Y-%m-%d %H:%M} UTC"
    when += f", in {duration(seconds)}" if seconds > 0 else ""
    return f"deadline {deadline.kind}: {deadline.state}, {when}{why} ({deadline.source})"


def default_hours(inventory: Inventory) -> float:
    """Hours of the shortest deadline in the stack's configuration, else DEFAULT_HOURS."""
    seconds = [deadline.seconds for deadline in inventory.deadlines]
    return min(seconds) / 3600 if seconds else DEFAULT_HOURS


def arm(inventory: Inventory, cloud: Cloud, hours: float | None, report: Reporter) -> None:
    """Arm the cloud's deadlines before a start. Deadlines that count from each start need this only
    for a new duration."""
    before = cloud.deadlines()
    if not before:
        return
    if hours is not None or any(d.state != "armed" or d.at for d in before.values()):
        cloud.set_deadline(hours or default_hours(inventory))
    if armed := most_urgent(cloud.deadlines().values()):
        report(describe(armed))


def arm_timers(inventory: Inventory, cloud: Cloud, hours: float | None, report: Reporter) -> None:
    """Let each machine power itself off when its cloud would stop it. All machines must be running.
    HostsFailed: some do not answer, or refuse."""
    if not inventory.kind.in_cloud:
        return
    urgent = most_urgent(cloud.deadlines().values())
    if urgent and urgent.state == "armed" and urgent.at:
        move_timers(inventory, urgent.at, report, of_cloud=urgent.fixed)
    else:
        move_timers(inventory, _from_now(hours or default_hours(inventory)), report)


def move_timers(
    inventory: Inventory, until: datetime, report: Reporter, *, of_cloud: bool = False
) -> None:
    """Move the timers of running machines; a machine without one is reported. `of_cloud`: as in
    `timer.move`. HostsFailed: some do not answer, or refuse; the others were moved."""
    with connect.open_sessions(inventory) as sessions:
        moved = connect.everywhere(
            sessions, lambda session: _move(session, until, of_cloud), what="moving the timers"
        )
    report_missing(moved, report)
    if sessions.failed:
        summary = "the timers of some machines were not moved: these power off at their old time"
        raise HostsFailed(summary, sessions.outcomes, hint=EXTEND_HINT)


def _move(session: Session, until: datetime, of_cloud: bool) -> Deadline:
    deadline = timer.read(session)
    if deadline.state == MISSING and deadline.at is None:
        return deadline
    timer.move(session, until, of_cloud=of_cloud)
    return replace(deadline, at=until, state="armed", reason="")


def report_missing(timers: Mapping[str, Deadline], report: Reporter) -> None:
    """A line for each machine whose timer cannot power it off."""
    for name, deadline in timers.items():
        if deadline.state == MISSING:
            report(
                f"[{name}] warning: {deadline.reason}, so it does not power itself off; only the "
                "cloud's own deadline stops it"
            )


@dataclass(frozen=True)
class NewDeadline:
    """What `fab extend` moves a deadline to: `hours` from now or, with `adds`, after the present
    one."""

    hours: float
    adds: bool = False

    @classmethod
    def read(cls, text: str | None) -> NewDeadline:
        """The value of --hours: 4h, or +4h; UsageError for another text."""
        if text is None:
            from_now = Hint(Command("extend", hours=4), "   # from now; or later: --hours +4h")
            raise UsageError("--hours is missing", hint=from_now)
        adds = re.match(r"\+[\d.]", text) is not None
        hours = from_texts(DeadlineOptions, {"hours": text[adds:]}, UsageError).hours
        assert hours is not None
        return cls(hours, adds)

    @property
    def text(self) -> str:
        """As typed."""
        return f"{'+' if self.adds else ''}{number_text(self.hours)}"

    def at(self, present: datetime | None) -> datetime:
        """Its time; UsageError if that is more than MOST_HOURS from now."""
        start = present if self.adds and present else _from_now(0)
        end = start + timedelta(hours=self.hours)
        if end > _from_now(MOST_HOURS):
            raise UsageError(
                f"--hours {self.text}: {end:{TIME}} UTC is more than {MOST_HOURS:g} hours from "
                "now, the longest deadline",
                hint=Command("extend", hours=f"{MOST_HOURS:g}"),
            )
        return end


def new_deadline(options: ExtendOptions) -> Callable[[Inventory], NewDeadline]:
    """The new deadline of a command, for the machines; UsageError for both options, or none."""
    if options.budget is None:
        new = NewDeadline.read(options.hours)
        return lambda _: new
    if options.hours is not None:
        raise UsageError("--hours and --budget both say when the machines stop: give one of them")
    from ..costs import budget  # imported late, with all code about prices

    dollars = options.budget
    return lambda inventory: NewDeadline(min(MOST_HOURS, budget.hours_of(dollars, inventory)))


def extend(
    running: Inventory | None,
    cloud: Cloud,
    new: NewDeadline,
    report: Reporter,
    before_timers: Callable[[Inventory], None] = lambda running: None,
    agree: Callable[[str], None] = lambda question: None,
    hours_left: float | None = None,
) -> None:
    """Move both deadlines: that of the cloud first, because the machines may not answer for
    minutes. If two commands do this at the same time, both end with the later time.

    Args:
        running: the inventory of the machines of a cloud that run, None for none.
        before_timers: called before the machines are reached.
        agree: called with a question if the new deadline is earlier; it raises to refuse.
        hours_left: the hours that the budget of the stack leaves, None for a stack without one.

    Raises:
        UsageError: the cloud stops a running machine earlier; nothing was changed.
        HostsFailed: the timers of some machines were not moved.
        RailheadError: the cloud refused; the timers were moved.
    """
    before, refused = cloud.deadlines(), None
    if not before:
        report("these machines have no deadline of a cloud")
        return
    present = max((d.at for d in before.values() if d.at and d.at > _from_now(0)), default=None)
    end = new.at(present)
    hours = (end - _from_now(0)).total_seconds() / 3600 if new.adds else new.hours
    if hours_left is not None and hours > hours_left:
        rest = floor(hours_left * 10) / 10  # never more than is left
        raise UsageError(
            f"--hours {new.text}: the budget of the stack leaves {rest:.1f} hours from now",
            hint=Command("extend", hours=f"{rest:.1f}"),
        )
    fixed = most_urgent([d for d in before.values() if d.fixed])
    if fixed and fixed.at and fixed.at < end:
        raise passes_fixed(f"{end:{TIME}} UTC", fixed, hours)
    if present:
        moves = f"from {present:{TIME}} to {end:{TIME}} UTC"
        if end < present - SAME_TIME:
            agree(f"the deadline moves {moves}, which is earlier. Move it?")
        report(f"the deadline moves {moves}")
    if fixed is None:
        try:
            cloud.set_deadline(hours)
        except RailheadError as error:
            refused = error
    if armed := most_urgent(cloud.deadlines().values()):
        report(describe(armed) + ("; it stays as it is while a machine runs" if fixed else ""))
    if running:
        before_timers(running)
        move_timers(running, end, report)
    if refused:
        raise refused
    until = _settle(running, None if fixed else cloud, end, report)
    if running:
        report(f"the machines power themselves off at {until:{TIME}} UTC")


def _settle(
    running: Inventory | None, cloud: Cloud | None, until: datetime, report: Reporter
) -> datetime:
    """Read the deadlines again; if another command has moved some of them meanwhile, move all to
    the latest time. Returns that time. Without `cloud`, the machines' timers are read."""
    for _ in range(MOST_MOVES):
        read = cloud.deadlines() if cloud else _timers(running)
        times = [until, *(d.at for d in read.values() if d.at)]
        if max(times) - min(times) < SAME_TIME:
            break
        until = max(times)
        report(f"another command moved them too; the later time counts: {until:%Y-%m-%d %H:%M} UTC")
        if cloud:
            cloud.set_deadline((until - _from_now(0)).total_seconds() / 3600)
        if running:
            move_timers(running, until, report)
    return until


def _timers(running: Inventory | None) -> dict[str, Deadline]:
    """The timers of machines, as each reports its own."""
    if running is None:
        return {}
    with connect.open_sessions(running) as sessions:
        return connect.everywhere(sessions, timer.read, what="reading the timers")


def passes_fixed(subject: str, deadline: Deadline, hours: float) -> UsageError:
    """The error for a time after a deadline that cannot be moved while the machine runs."""
    return UsageError(
        f"{subject} is after {deadline.at:{TIME}} UTC, when the cloud stops these machines; "
        f"{deadline.kind} can only change while a machine is stopped",
        hint=Hint(Command("stop"), ", then ", Command("start", hours=f"{hours:g}")),
    )


def cover_run(cluster: ConnectedCluster, policy: StopPolicy, report: Reporter) -> None:
    """Before a run on machines of a cloud: move deadlines that come before the end of its
    `--max-hours`, and the timers of machines that started after their deadline. HostsFailed: a
    timer was not moved."""
    if not cluster.inventory.kind.in_cloud:
        return
    hours = policy.max_hours + BEFORE_RUN + AFTER_RUN if policy.max_hours else 0.0
    hours_left = (policy.spent_at - time.time()) / 3600 if policy.spent_at else MOST_HOURS
    hours = min(MOST_HOURS, hours_left, hours)
    needed, before = _from_now(hours), cloud_of(cluster.inventory).deadlines()
    urgent = most_urgent(before.values())
    if urgent and urgent.at and urgent.fixed:
        needed = min(needed, urgent.at - SAME_TIME)  # no timer moves beyond it
    elif urgent and urgent.at and urgent.at < needed:
        short = [name for name, deadline in before.items() if deadline.at and deadline.at < needed]
        cloud_of(cluster.inventory.only(short)).set_deadline(hours)
        report(f"the cloud's deadline moves to {needed:%Y-%m-%d %H:%M} UTC, for --max-hours")
        urgent = replace(urgent, at=needed)
    until = urgent.at if urgent and urgent.at else _from_now(default_hours(cluster.inventory))
    timers = connect.everywhere(cluster.sessions, timer.read, what="reading the timers")
    report_missing(timers, report)
    early = {n: s for n, s in cluster.sessions.items() if _comes_before(timers[n], needed)}
    move = partial(timer.move, until=max(until, needed), of_cloud=bool(urgent and urgent.fixed))
    connect.everywhere(early, move, what="moving the timers")


def limit(cluster: ConnectedCluster, spent_at: float, report: Reporter) -> None:
    """Before a run with a budget: move later deadlines to the time at which it is spent. A cloud's
    deadline that cannot be moved while machines run stays; their timers are moved. HostsFailed: a
    timer was not moved."""
    if not cluster.inventory.kind.in_cloud:
        return
    end = datetime.fromtimestamp(spent_at, timezone.utc)
    before = cloud_of(cluster.inventory).deadlines()
    late = [
        name
        for name, deadline in before.items()
        if _comes_after(deadline, end) and not deadline.fixed
    ]
    if late:
        hours = (end - _from_now(0)).total_seconds() / 3600
        cloud_of(cluster.inventory.only(late)).set_deadline(hours)
    timers = connect.everywhere(cluster.sessions, timer.read, what="reading the timers")
    longer = {n: s for n, s in cluster.sessions.items() if _comes_after(timers[n], end)}
    connect.everywhere(longer, lambda session: timer.move(session, end), what="moving the timers")
    if late or longer:
        report(f"the machines stop at {end:{TIME}} UTC: then the budget is spent")


def _comes_after(deadline: Deadline, end: datetime) -> bool:
    return deadline.state == "armed" and bool(deadline.at and deadline.at > end + SAME_TIME)


def _comes_before(deadline: Deadline, end: datetime) -> bool:
    return deadline.state == "past" or (
        deadline.state == "armed" and bool(deadline.at and deadline.at < end)
    )


def _from_now(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)
