"""Checks the machines' deadline before a run, and follows their stop after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeVar

from railhead.documents.options.runs import EndingOptions
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import Stop
from railhead.documents.runs.state import Machines, RunState
from railhead.documents.times import moment

from ..clouds import base
from ..clouds.base import STOPPED, Deadline, most_urgent
from ..console.output import Reporter, print_result
from ..console.wait import Clock
from ..errors import Command, Hint, HostsFailed, RailheadError, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..runs.run import Run, read_state
from ..ssh.session import Session
from ..untrusted.run_files import read_result, read_run_document
from . import deadlines, stack_machines

if TYPE_CHECKING:
    from ..runs.launch import StopPolicy

STOP_SECONDS = 600.0  # from a run's end until the cloud must report the machines as stopped
READ_SECONDS = 10.0  # until the chief answers, which may be stopping
LEFT = "left to endpoint"  # how stop_machines.py begins this reason
DEFAULT_KEEP = 20
A_YEAR = 8784.0  # hours: a budget that lasts longer has no date; no deadline is so late
T = TypeVar("T")


def stop_policy_of(ending: EndingOptions) -> StopPolicy:
    """What happens to the machines at the end of a run; UsageError for a contradiction."""
    if ending.keep is not None and not ending.stop:
        raise UsageError("--keep and --no-stop contradict each other: give one of them")
    from ..runs.launch import StopPolicy  # imported late, with all code that starts runs

    minutes = DEFAULT_KEEP if ending.keep is None else int(ending.keep)
    return StopPolicy(
        minutes,
        stop=ending.stop,
        max_hours=ending.max_hours,
        on_stall=ending.on_stall,
        stall_after=ending.stall_after,
        budget=ending.budget,
    )


def within_budget(inventory: Inventory, policy: StopPolicy, now: float) -> StopPolicy:
    """The policy with the time at which its budget, or what is left of the stack's, is spent.
    Without --max-hours it requires no later deadline: `from_now` gives the run its hours.
    UsageError: a price is not known, or the budget is too small for a run."""
    if inventory.budget is None and policy.budget is None:
        return policy
    from ..costs import budget  # imported late, like all code about prices: most hosts are free

    of_stack = budget.hours_left(inventory, now)
    of_run = None if policy.budget is None else budget.hours_of(policy.budget, inventory)
    hours = min(hours for hours in (of_stack, of_run) if hours is not None)
    budget.refuse_small(policy.budget or inventory.budget or 0, hours, policy.keep_hours, inventory)
    limited = replace(policy, spent_at=now + min(hours, A_YEAR) * 3600)
    return limited if policy.max_hours is None else limited.from_now(now)


def check_before_run(inventory: Inventory, policy: StopPolicy) -> str:
    """Check the cloud's deadline before files are sent; returns a line with its time.

    Raises:
        UsageError: the deadline is missing, past, or earlier than the run's --max-hours and cannot
            be moved while the machines run. Or an option is about the stop of hosts that a run
            never stops. Or a run that stalls would never end, because the hosts have no deadline.
    """
    if not inventory.is_managed:
        _refuse_stop_options(inventory, policy)
        _refuse_endless_wait(policy)
        return ""
    deadline = most_urgent(base.cloud_of(inventory).deadlines().values())
    if deadline is None:
        _refuse_endless_wait(policy)
    return check_deadline(deadline, policy, datetime.now(timezone.utc))


def _refuse_stop_options(inventory: Inventory, policy: StopPolicy) -> None:
    if (policy.keep_minutes, policy.stop) != (DEFAULT_KEEP, True):
        raise UsageError(
            f"--keep and --no-stop are for machines of a stack: those of {inventory.name} are "
            "never stopped by a run",
            hint="the same command without them",
        )


def _refuse_endless_wait(policy: StopPolicy) -> None:
    ends = policy.max_hours is not None or policy.spent_at is not None
    if policy.on_stall == "wait" and not ends:
        raise UsageError(
            "--on-stall wait without a deadline: these machines have none, so a run that stalls"
            " would never end",
            hint=Hint(Command("train", on_stall="wait", max_hours=8), " ..."),
        )


def check_deadline(deadline: Deadline | None, policy: StopPolicy, now: datetime) -> str:
    """As `check_before_run`, for a deadline that was already read."""
    if deadline is None:
        return ""
    if deadline.state != "armed":
        raise UsageError(
            f"the cloud's own deadline of these machines is {deadline.state} "
            f"({deadline.source}): nothing would stop them if everything else fails",
            hint=deadlines.EXTEND_HINT,
        )
    if deadline.at is None:
        return f"the cloud stops these machines by itself: {deadline.reason}"
    hours_left = (deadline.at - now).total_seconds() / 3600
    if policy.max_hours is not None and policy.max_hours > hours_left and deadline.fixed:
        option = f"--max-hours {policy.max_hours:g}"
        raise deadlines.passes_fixed(option, deadline, policy.max_hours)
    end = f"{deadline.at:{deadlines.TIME}} UTC"
    return f"the cloud stops these machines at {end}, {hours_left:.1f} h left"


@contextmanager
def preparing(inventory: Inventory, report: Reporter) -> Iterator[None]:
    """Around the steps before the supervisor starts: after an error, report that machines run."""
    try:
        yield
    except BaseException:
        if inventory.is_managed:
            report(f"no run was started; {keep_running(inventory)}")
        raise


@contextmanager
def running_machines(inventory: Inventory) -> Iterator[None]:
    """Around steps on machines that run: after an error, print, also with --quiet, that they keep
    running."""
    try:
        yield
    except BaseException:
        print_result(keep_running(inventory))
        raise


def keep_running(inventory: Inventory) -> str:
    """One line: the machines of a stack keep running, their price, and how to stop them."""
    return f"the machines keep running{price(inventory)}: {Command('stop', **inventory.target)}"


def wait_after_run(
    inventory: Inventory,
    run: Run,
    report: Reporter,
    *,
    chief: Session | None = None,
    clock: Clock | None = None,
    notice: Reporter | None = None,
) -> None:
    """Report what happens to the machines; after a successful run wait until they are stopped.

    The times of the stops are recorded, for the report of the run. Machines that `chief` leaves
    to an endpoint are not waited for.

    Args:
        notice: receives the lines about machines that continue to cost; default: `report`.

    Raises:
        HostsFailed: some do not stop.
    """
    if not inventory.is_managed:
        return
    notice = notice or report
    document = _fetched(run, "run.json", read_run_document)
    stop = document.stop if document else None
    result = _fetched(run, "result.json", read_result)
    if not stop:
        stops = f"{Command('teardown', **inventory.target)} stops them"
        notice(f"the machines keep running (--no-stop){price(inventory)}; {stops}")
    elif not result:
        warning = f"no supervisor is running to stop the machines{price(inventory)}"
        notice(f"{warning}: {Command('stop', **inventory.target)}")
    elif result.state == "succeeded":
        machines = base.cloud_of(stack_machines.of_now(inventory, report))
        cloud = _Stopping(machines, run, chief)
        states = wait_for_stop(cloud, report, clock=clock)
        from ..costs import ledger

        ledger.note(inventory, states)
        for name, why in cloud.left.items():
            status = Command("status", **inventory.target)
            notice(f"[{name}] keeps running: {why}; {status} says until when")
        with suppress(OSError):  # only the report of the run then lacks the times
            local_state.change_run(run.run_id, stops={name: s.at for name, s in states.items()})
    else:
        notice(describe_kept(stop, result, inventory))


class _Stopping:
    """The states of the machines that stop after a run, without those that its supervisor leaves
    to an endpoint: `left`, {host: why}."""

    def __init__(self, cloud: base.HasStates, run: Run, chief: Session | None) -> None:
        self.cloud, self.run, self.chief = cloud, run, chief
        self.left: dict[str, str] = {}

    def instance_states(self) -> dict[str, base.InstanceState]:
        """The states as the cloud reports them now."""
        self._read_left()
        states = self.cloud.instance_states()
        return {name: state for name, state in states.items() if name not in self.left}

    def _read_left(self) -> None:
        if self.chief is None:
            return
        try:
            state = read_state(self.chief, self.run, silence=READ_SECONDS)
        except RailheadError:  # its connection ends when it stops
            self.chief = None
            return
        machines = state.machines if state else None
        for name, why in machines.stopped.items() if machines else ():
            if why.startswith(LEFT):
                self.left[name] = why[:200]


def _fetched(run: Run, name: str, parse: Callable[[str], T]) -> T | None:
    """A parsed file of the fetched results; None if it was not fetched."""
    path = run.results / name
    return parse(path.read_text(errors="replace")) if path.is_file() else None


def price(inventory: Inventory) -> str:
    """The price of all machines together: `, 7.82 USD per hour`; empty if it costs nothing."""
    if inventory.price is None:
        return ""
    from railhead.money import host

    parts = host.read(inventory.price, len(inventory.hosts))
    return f", {host.per_hour(parts, len(inventory.hosts)).text('per hour')}" if parts else ""


def describe_kept(stop: Stop, result: Result, inventory: Inventory) -> str:
    """One line: until when the machines are kept after a run that did not succeed."""
    minutes = stop.keep_minutes
    if not minutes:
        return f"the machines stop now; {Command('status', **inventory.target)} says when they have"
    until = ""
    with suppress(OverflowError):  # of a host that names the year 9999
        if start := moment(result.ended):
            until = f"until {start + timedelta(minutes=minutes):%H:%M} UTC "
    return (
        f"the machines are kept {until}({minutes:g} min{price(inventory)}), then they stop; "
        f"{Command('teardown', **inventory.target)} stops them now"
    )


def phase(state: RunState | None) -> list[str]:
    """What stop_machines.py on the chief does now: one line, or none if machines do not stop."""
    return [describe_phase(state.machines)] if state and state.machines else []


def describe_phase(machines: Machines) -> str:
    """The `machines` of state.json, which stop_machines.py writes, as one line."""
    until = f", kept until {machines.until[11:16]} UTC" if machines.until else ""
    outcomes = "".join(f", {name}: {why}" for name, why in machines.stopped.items())
    why = machines.checkpoints
    lost = f"; the last checkpoints are not in the bucket: {why}" if why else ""
    return f"machines: {machines.phase}{until}{outcomes}; results {machines.results}{lost}"


def wait_for_stop(
    cloud_: base.HasStates, report: Reporter, *, clock: Clock | None = None
) -> Mapping[str, base.InstanceState]:
    """Wait until the cloud reports every machine as stopped; HostsFailed if it does not."""
    states = base.wait_for_state(
        cloud_,
        STOPPED,
        report=lambda line: report(f"stopping: {line}"),
        limit=STOP_SECONDS,
        clock=clock,
    )
    outcomes = {n: f"{s.state} ({s.source}, {s.at})" for n, s in states.items()}
    if any(s.state not in STOPPED for s in states.values()):
        raise HostsFailed("machines do not stop", outcomes, hint=Command("teardown"))
    for name, text in outcomes.items():
        report(f"[{name}] {text}")
    return states
