"""`fab up --replace HOST`: creates again a machine that is gone, for the run in progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.run import RunDocument

from ...clouds import base
from ...console.output import print_lines
from ...data.place import place_data
from ...errors import Command, Hint, RailheadError, UsageError
from ...inventory import local_state, pulumi_stack
from ...inventory.hosts import Inventory
from ...lifecycle import power, stop_policy
from ...lifecycle.consent import unfetched
from ...lifecycle.creation import up
from ...lifecycle.power import ClusterStatus
from ...plan.cluster import Options
from ...plan.runtimes import RUNTIMES
from ...runs import replacement, start, takeover
from ...runs.earlier_run import earlier_run, resumed_request
from ...runs.request import RunRequest
from ...runs.run import Run, find_run
from ...ssh.session import Session
from .. import attach
from ..bootstrap import make_ready
from ..plan import ready_options, surveyed


@dataclass(frozen=True)
class Needs:
    """The run that needs a host: its program, and how hosts get ready for it."""

    run: Run
    request: RunRequest
    options: Options


def replace_host(stack: str, name: str, *, yes: bool, discard: bool) -> None:
    """Create again a machine of the stack that is gone; the run in progress takes it back. After an
    interruption the same call continues.

    Raises:
        UsageError: there is no such host, it is not gone, or the program of the run has changed.
        RailheadError: the machine was not created, or the run did not get it.
    """
    status = power.cluster_status(pulumi_stack.cluster_of(stack))
    _refuse_unknown(status.inventory, name)
    with _run_without(status, name) as needs:
        state = status.instance_states[name].state
        if state == "gone":
            up.up(stack, print_lines, yes=yes, refresh=True, discard=discard)
        elif state != "running" or needs is None:
            raise _exists(status, name)
        if needs is None:
            print_lines(f"{name} was created again; no run recorded here is in progress without it")
            return
        with stop_policy.running_machines(status.inventory):
            _hand_over(_ready(stack, needs.run, name), needs, name)
    run_id = needs.run.run_id
    _record_lost_standby(needs.run, name)
    print_lines(
        f"{name} has the files of run {run_id}, which continues with it after a checkpoint",
        f"next: {Command('attach', run=run_id)}",
    )


def _record_lost_standby(run: Run, name: str) -> None:
    """If this host had the program that would take over the run, record that it is not started
    again."""
    if takeover.standby_of(run) == name:
        takeover.record_no_standby(run.run_id)
        print_lines(
            f"run {run.run_id} has no standby any more: {name} does not take it over"
            " if its chief is lost"
        )


def _refuse_unknown(inventory: Inventory, name: str) -> None:
    if name not in inventory.names:
        raise UsageError(
            f"--replace {name}: it must be a host of stack {inventory.stack}: one of"
            f" {', '.join(inventory.names)}"
        )


def _exists(status: ClusterStatus, name: str) -> UsageError:
    target = status.inventory.target
    return UsageError(
        f"--replace {name}: it is {status.instance_states[name].state}; only a machine that is gone"
        " is created again",
        hint=Hint(Command("status", **target), "   # or: ", Command("start", **target)),
    )


@contextlib.contextmanager
def _run_without(status: ClusterStatus, name: str) -> Iterator[Needs | None]:
    """The run in progress that lacks this host; its supervisor waits for the host meanwhile. None
    without such a run, also if the host was its chief."""
    with contextlib.ExitStack() as connections:
        running = _run_in_progress(status, name, connections)
        if running is None:
            yield None
            return
        chief, run = running
        if local_state.recorded_run(run.run_id).elsewhere:
            raise UsageError(
                f"--replace {name}: run {run.run_id}, which lacks it, has its program elsewhere",
                hint="the same command on the computer that started the run",
            )
        needs = _needs(run, replacement.document_of(chief, run))
        replacement.announce(chief, run)
        yield needs


def _run_in_progress(
    status: ClusterStatus, name: str, connections: contextlib.ExitStack
) -> tuple[Session, Run] | None:
    """The newest run in progress with this host, and an open session with its chief."""
    chiefs: dict[str, Session] = {}
    for run in _candidates(status, name):
        host = run.part_of(status.inventory).chief.name
        if host not in chiefs:
            connection = attach.connected(status.inventory, run)
            chiefs[host] = connections.enter_context(connection).chief
        if replacement.is_in_progress(chiefs[host], run):
            return chiefs[host], run
    return None


def _candidates(status: ClusterStatus, name: str) -> Iterator[Run]:
    """The runs recorded here, the newest first, that may be in progress and lack this host: those
    without a result here, whose chief is another host that is not known to be stopped."""
    inventory = status.inventory
    for run_id in reversed(unfetched(inventory)):
        run = find_run(inventory, run_id)
        if takeover.standby_of(run) not in ("", name):
            run = takeover.current(inventory, run)
        chief = run.part_of(inventory).chief.name
        is_other = name != chief and (not run.hosts or {name, chief} <= {*run.hosts})
        may_run = status.instance_states[chief].state in ("running", "unknown")
        if is_other and may_run:
            yield run


def _needs(run: Run, document: RunDocument) -> Needs:
    """What a run that was started from this computer needs.

    Raises:
        UsageError: it was started elsewhere, or its program has changed.
    """
    known = replace(document, keras_auto=False)  # the chief knows which one
    earlier = replace(earlier_run(run.run_id), document=known)
    request, args = resumed_request(earlier, ProgramOptions())
    replacement.require_same(document, request)
    ready = ReadyOptions(allow_mixed=True)
    options = ready_options(ready, args, launcher=document.launcher)
    runtime = RUNTIMES.get(document.runtime.name)
    row = runtime.row.name if runtime else None
    has_standby = bool(takeover.standby_of(run))
    digest = document.runtime.digest
    options = replace(options, runtime=row, takeover=has_standby, environment=digest)
    return Needs(run, request, options)


def _ready(stack: str, run: Run, name: str) -> Inventory:
    """The machines of the stack, when the new one accepts a login. No machine is started, and no
    deadline is moved: the run may have ended, and its machines stopped.

    Raises:
        RailheadError: another machine of the run does not run.
    """
    inventory = pulumi_stack.cluster_of(stack)
    _refuse_stopped(power.cluster_status(inventory), run, name)
    cloud = base.cloud_of(inventory.only([name]))
    base.wait_for_state(cloud, ("running",), report=print_lines)
    status = power.cluster_status(inventory)
    new = status.inventory.only([name])
    power.pin_host_keys(replace(status, inventory=new), print_lines)
    power.wait_for_ssh(new, print_lines)
    return status.inventory


def _refuse_stopped(status: ClusterStatus, run: Run, name: str) -> None:
    """RailheadError if a machine of the run, other than the new one, does not run."""
    part, target = run.part_of(status.inventory), status.inventory.target
    states = {host: status.instance_states[host].state for host in part.names if host != name}
    stop = Command("stop", **target)
    if states[part.chief.name] != "running":
        raise replacement.ended(run, name, target)
    if stopped := [f"{host} is {state}" for host, state in states.items() if state != "running"]:
        raise RailheadError(
            f"{', '.join(stopped)}: run {run.run_id} needs it too, or has ended",
            hint=Hint(Command("status", **target), "   # or: ", stop),
        )


def _hand_over(inventory: Inventory, needs: Needs, name: str) -> None:
    """Make the host ready, and give it and the chief what the run needs."""
    run, options = needs.run, needs.options
    with surveyed(run.part_of(inventory), options) as cluster:
        if cluster.facts[name].run_processes:
            raise UsageError(
                f"--replace {name}: run {run.run_id} has processes there",
                hint=Command("attach", run=run.run_id),
            )
        cluster = make_ready(cluster, options)
        cluster.start_agents()
        start.refuse_closed_pairs(cluster)
        place_data(needs.request.data, cluster)
        replacement.hand_over(cluster, needs.request, run, name)
