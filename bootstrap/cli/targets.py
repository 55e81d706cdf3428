"""Resolves the hosts of a command. No other module reads --hosts or --stack."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import TargetOptions

from ..console.output import print_lines
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state, pulumi_cli, pulumi_stack, stack_records
from ..inventory.files import hosts_of_file
from ..inventory.hosts import Inventory, parse_hosts
from ..inventory.pulumi_stack import NoMachines
from ..lifecycle import lost, power, stack_machines
from ..lifecycle.power import ClusterStatus
from ..lifecycle.stack_machines import StackMachines
from ..serving import records


@dataclass(frozen=True)
class Target:
    """The hosts of a command, not yet resolved: those of its options."""

    options: TargetOptions

    def __post_init__(self) -> None:
        if self.options.hosts is not None and self.options.stack is not None:
            raise UsageError("--hosts and --stack both name hosts: give one of them")

    def status(self) -> ClusterStatus:
        """The hosts and, for a stack, the current state of each machine. Prints one line."""
        return _printed(self._inventory())

    def machines(self) -> StackMachines | None:
        """All machines of a stack, also those that its output does not have, and one line on
        where they are; None for hosts of no stack."""
        if self.options.hosts is not None:
            return None
        stack = self._stack_name()
        recorded = local_state.adopted(stack) if stack else self._recorded()
        if recorded is not None:
            return stack_machines.of_record(recorded) if recorded.is_managed else None
        assert stack
        return _machines_of(stack)

    def status_of(self, machines: StackMachines | None) -> ClusterStatus:
        """As `status`, for all machines of a stack that `machines` found.

        Raises:
            UsageError: it has none.
        """
        if machines is None:
            return self.status()
        if machines.inventory is None:
            raise pulumi_stack.no_machines(machines.stack)
        return _printed(machines.inventory)

    def running(self) -> Inventory:
        """The hosts, all of them running and with pinned host keys.

        Raises:
            UsageError: some machines do not run, and `start` is not set.
        """
        return power.ensure_running(self.status(), print_lines, start_them=self.options.start)

    def _inventory(self) -> Inventory:
        if self.options.hosts is not None:
            return _named_hosts(self.options.hosts, self.options.slots)
        stack = self._stack_name()
        if stack is None:
            return self._recorded()
        return local_state.adopted(stack) or _documented(stack)

    def _stack_name(self) -> str | None:
        if self.options.stack is not None:
            return self.options.stack
        return self._of_run.stack if self._of_run else pulumi_stack.current()

    def _recorded(self) -> Inventory:
        return self._of_run or _last_cluster()

    @cached_property
    def _of_run(self) -> Inventory | None:
        """The recorded cluster of `run`."""
        return None if self.options.run is None else local_state.cluster_of_run(self.options.run)


def _named_hosts(text: str, slots: int | None) -> Inventory:
    """The hosts of --hosts; the error for a file of hosts says how to name those in it."""
    try:
        return parse_hosts(text, slots=slots)
    except UsageError as error:
        if hint := hosts_of_file(text):
            raise UsageError(error.message, hint=hint) from None
        raise


def _last_cluster() -> Inventory:
    """The hosts of the last command. Where there are none, the error names recorded stacks."""
    try:
        return local_state.last_cluster()
    except UsageError as error:
        records = stack_records.every()
        if not records:
            raise
        stacks = ", ".join(f"{r.stack} ({r.cloud}, id {r.cluster_id})" for r in records)
        raise UsageError(
            f"{error.message}; stacks that this computer knows: {stacks}",
            hint=Hint(Command("adopt", records[0].cluster_id), "   # or: pulumi login, as before"),
        ) from None


def _documented(stack: str) -> Inventory:
    """The machines of a stack's output. Where it has none, the error names those that exist."""
    try:
        return pulumi_stack.cluster_of(stack)
    except NoMachines:
        _machines_of(stack).refuse_undocumented()
        raise


def _machines_of(stack: str) -> StackMachines:
    """All machines of a stack, and a line where there are none.

    Raises:
        UsageError: Pulumi has no state of it, and machines of it exist.
    """
    try:
        machines = stack_machines.find(stack)
    except NoMachines as error:
        searched = lost.search(stack)
        if searched.machines:
            raise searched.error() from None
        raise NoMachines(
            f"{error.message}; {searched.text}", hint=searched.hint or error.next
        ) from None
    except UsageError:
        _print_recorded(stack)
        raise
    if machines.inventory is None and machines.unlisted:
        print_lines(f"stack {stack}: no machine is in Pulumi's state; others are not known")
        _print_recorded(stack)
        stack_machines.of_id(machines)  # raises why, with what to do
    if machines.inventory is None:
        if machines.state.cluster_id is None:
            searched = lost.search(stack)
            if searched.machines:
                raise searched.error()
            machines = replace(machines, searched=searched)
        place = f" ({machines.place})" if machines.place else ""
        searched_text = f"; {machines.searched.text}" if machines.searched else ""
        print_lines(f"stack {stack}{place}: no machine{searched_text}")
    return machines


def _print_recorded(stack: str) -> None:
    """What this computer knows of the machines of a stack, where nothing else is known now."""
    for record in stack_records.of_stack(stack):
        names = {id_: machine.name for id_, machine in record.machines.items()}
        print_lines(*stack_records.describe(names, record.cluster_id))


def _printed(inventory: Inventory) -> ClusterStatus:
    """The status, and its one line. Where the cloud does not answer, what may run is printed."""
    try:
        status = power.cluster_status(inventory)
    except RailheadError:
        if inventory.kind.in_cloud:
            names = {str(host.id): host.name for host in inventory.hosts}
            print_lines(*stack_records.describe(names, inventory.cluster_id))
        raise
    hosts = ", ".join(str(host) for host in status.inventory.hosts)
    print_lines(f"{status.inventory.name} ({status.place}): {hosts}")
    return status


def selected_stack(stack: str | None) -> str:
    """The named stack, otherwise the selected one.

    Raises:
        UsageError: none is selected, or Pulumi has no backend in which one could be.
    """
    selected = stack if stack is not None else pulumi_stack.current()
    if selected is None:
        pulumi_cli.login()
        raise UsageError(
            "no stack is selected",
            hint=Hint(Command("up", stack="NAME"), "   # a new one: pulumi stack init NAME"),
        )
    return selected


def hosts_of_endpoint(name: str, target: TargetOptions) -> Inventory | None:
    """The hosts among which an endpoint is that another computer may have deployed; None for one
    that is recorded here, and where no hosts are known or none runs."""
    if target == TargetOptions():
        known = local_state.clusters() or pulumi_stack.current()
        if records.find(name) or not known:
            return None
    return power.running_part(Target(target).status())
