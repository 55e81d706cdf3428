"""`fab stop --all`: stop the machines of all stacks of the Pulumi backend that belong to this
owner."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import TargetOptions, TeardownOptions

from ...clouds import base
from ...console.output import print_lines
from ...console.text import count
from ...errors import Command, HostsFailed, RailheadError, UsageError
from ...inventory import pulumi_stack
from ...inventory.hosts import Inventory
from ...inventory.owner import owner_of
from ...inventory.stack_state import StackState
from ...lifecycle import held, stack_machines, stop_policy
from ...lifecycle.consent import STOP, stop_or_terminate
from ...lifecycle.stack_machines import StackMachines

STOPPED, NONE, OTHER = "stopped", "no machine", "not of Railhead, not stopped"


@dataclass
class Stop:
    """The stop of one stack's machines. `outcome` is final when `inventory` is None; `unknown`:
    lines about machines that may be there, too."""

    stack: str
    outcome: str = ""
    failed: bool = False
    inventory: Inventory | None = None
    unknown: tuple[str, ...] = ()

    def fail(self, error: RailheadError) -> None:
        """Record why it failed; the machines may run."""
        self.inventory, self.failed = None, True
        self.outcome = f"{error.message}\n  next: {error.hint or STOP.plus(stack=self.stack)}"


def stop_all(target: TargetOptions, options: TeardownOptions, owner: str | None) -> None:
    """Stop the machines of all stacks: request all stops first, then wait for each.

    Raises:
        UsageError: hosts are named too, or Pulumi does not list its stacks.
        HostsFailed: a stack's machines were not stopped; the others were.
    """
    if target != TargetOptions():
        raise UsageError("--all and --hosts or --stack contradict each other: give one of them")
    mine = owner_of(owner)
    stops = [Stop(stack) for stack in pulumi_stack.all_stacks()]
    for stop in stops:
        _request(stop, options, mine)
    for stop in stops:
        _wait(stop)
    if not stops:
        print_lines("no stack of the Pulumi backend has resources")
    outcomes = {stop.stack: stop.outcome for stop in stops}
    if failed := [stop.stack for stop in stops if stop.failed]:
        raise HostsFailed(
            f"{count(len(failed), 'stack')} not stopped: {', '.join(failed)}",
            outcomes,
            hint=Command("stop", all=True),
        )
    print_lines(*(f"stack {stack}: {outcome}" for stack, outcome in outcomes.items()))


def _request(one: Stop, options: TeardownOptions, mine: str) -> None:
    """Let the cloud stop the machines of one stack."""
    try:
        state = pulumi_stack.state(one.stack)
        if not state.is_cluster:
            one.outcome = OTHER if state.kinds else NONE
            return
        machines = _machines(state)
        owners = {m.owner for m in machines.state.machines} | {m.owner for m in machines.strays}
        others = {owner for owner in owners if owner} - {mine}
        if machines.inventory is None:
            one.outcome = NONE
        elif others:
            stop = STOP.plus(stack=one.stack)
            one.outcome = f"of {', '.join(sorted(others))}, not stopped: {stop}"
        else:
            _halt(machines.inventory, options)
            one.inventory, one.unknown = machines.inventory, (*machines.unknown(),)
    except RailheadError as error:
        one.fail(error)


def _machines(state: StackState) -> StackMachines:
    """The machines of a stack; RailheadError if its state has none, and its cloud does not list
    them."""
    machines = stack_machines.of_state(state)
    if machines.unlisted and machines.inventory is None:
        stack_machines.of_id(machines)  # raises the error, with the next command
        machines = stack_machines.of_state(state)  # the cloud answers now: with the owners
        if machines.unlisted:
            raise RailheadError(machines.unlisted)
    return machines


def _halt(inventory: Inventory, options: TeardownOptions) -> None:
    cloud = base.cloud_of(inventory)
    stop_or_terminate(
        inventory,
        cloud,
        yes=options.yes,
        discard=options.discard_results,
        command=STOP,
        ask=held.ask,
    )()


def _wait(one: Stop) -> None:
    """Wait until the cloud reports the machines as stopped."""
    if one.inventory is None:
        return
    try:
        stop_policy.wait_for_stop(base.cloud_of(one.inventory), print_lines)
    except RailheadError as error:
        one.fail(error)
    else:
        one.outcome = "; ".join([f"{', '.join(one.inventory.names)} {STOPPED}", *one.unknown])
