"""`fab up --replace HOST`: creates a machine that is gone again, for the run in progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.run import RunDocument

from ...console.output import print_lines
from ...data.place import place_data
from ...errors import Command, Hint, UsageError
from ...inventory import pulumi_stack
from ...inventory.hosts import Inventory
from ...lifecycle import power, up
from ...lifecycle.power import ClusterStatus
from ...plan.cluster import Options
from ...plan.runtimes import RUNTIMES
from ...runs import replacement, start
from ...runs.earlier_run import earlier_run, resumed_request
from ...runs.request import RunRequest
from ...runs.run import Run, find_run
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
    """Create a machine of the stack that is gone again; the run in progress takes it back. After an
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
            print_lines(f"{name} was created again; no run in progress lacks it")
            return
        _hand_over(_ready(stack, name), needs, name)
    run_id = needs.run.run_id
    print_lines(
        f"{name} has the files of run {run_id}, which continues with it after a checkpoint",
        f"next: {Command('attach', run=run_id)}",
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
    """The run in progress that lacks this host; its supervisor waits for it meanwhile. None without
    such a run, also if the host was its chief."""
    run = _last_run(status, name)
    if run is None:
        yield None
        return
    with attach.connected(status.inventory, run) as connection:
        if not replacement.is_in_progress(connection.chief, run):
            yield None
            return
        needs = _needs(run, replacement.document_of(connection.chief, run))
        replacement.announce(connection.chief, run)
        yield needs


def _last_run(status: ClusterStatus, name: str) -> Run | None:
    """The last run of the cluster, if this host is one of it and its chief runs."""
    try:
        run = find_run(status.inventory, None)
    except UsageError:
        return None
    chief = run.part_of(status.inventory).chief.name
    is_other = name in run.hosts and name != chief
    return run if is_other and chief not in status.not_running else None


def _needs(run: Run, document: RunDocument) -> Needs:
    """What a run needs that was started from this computer.

    Raises:
        UsageError: it was not, or its program has changed.
    """
    known = replace(document, keras_auto=False)  # the chief knows which one
    earlier = replace(earlier_run(run.run_id), document=known)
    request, args = resumed_request(earlier, ProgramOptions())
    replacement.require_same(document, request)
    ready = ReadyOptions(allow_mixed=True)
    options = ready_options(ready, args, launcher=document.launcher)
    runtime = RUNTIMES.get(document.runtime.name)
    row = runtime.row.name if runtime else None
    return Needs(run, request, replace(options, runtime=row))


def _ready(stack: str, name: str) -> Inventory:
    """The machines of the stack, when the new one accepts a login. No deadline is moved."""
    status = power.cluster_status(pulumi_stack.cluster_of(stack))
    inventory = power.ensure_running(status, print_lines, start_them=True)
    power.wait_for_ssh(inventory.only([name]), print_lines)
    return inventory


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
