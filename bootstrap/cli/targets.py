"""Resolves the hosts of a command. No other module reads --hosts or --stack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from railhead.documents.options.hosts import TargetOptions

from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..inventory import local_state, pulumi_stack
from ..inventory.hosts import Inventory, parse_hosts
from ..lifecycle import power, stack_machines
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
        return _printed(power.cluster_status(self._inventory()))

    def machines(self) -> StackMachines | None:
        """All machines of a stack, also those that its output does not have, and one line on
        where they are; None for hosts of no stack."""
        if self.options.hosts is not None:
            return None
        stack = self._stack_name()
        if stack is not None:
            machines = stack_machines.find(stack)
        else:
            recorded = self._recorded()
            if not recorded.is_managed:
                return None
            machines = stack_machines.of_record(recorded)
        if machines.inventory is None:
            place = f" ({machines.place})" if machines.place else ""
            print_lines(f"stack {machines.stack}{place}: no machine")
        return machines

    def status_of(self, machines: StackMachines | None) -> ClusterStatus:
        """As `status`, for all machines of a stack that `machines` found.

        Raises:
            UsageError: it has none.
        """
        if machines is None:
            return self.status()
        if machines.inventory is None:
            raise pulumi_stack.no_machines(machines.stack)
        return _printed(power.cluster_status(machines.inventory))

    def running(self) -> Inventory:
        """The hosts, all of them running and with pinned host keys.

        Raises:
            UsageError: some machines do not run, and `start` is not set.
        """
        return power.ensure_running(self.status(), print_lines, start_them=self.options.start)

    def _inventory(self) -> Inventory:
        if self.options.hosts is not None:
            return parse_hosts(self.options.hosts, slots=self.options.slots)
        stack = self._stack_name()
        return self._recorded() if stack is None else pulumi_stack.cluster_of(stack)

    def _stack_name(self) -> str | None:
        if self.options.stack is not None:
            return self.options.stack
        return self._of_run.stack if self._of_run else pulumi_stack.current()

    def _recorded(self) -> Inventory:
        return self._of_run or local_state.last_cluster()

    @cached_property
    def _of_run(self) -> Inventory | None:
        """The recorded cluster of `run`."""
        return None if self.options.run is None else local_state.cluster_of_run(self.options.run)


def _printed(status: ClusterStatus) -> ClusterStatus:
    hosts = ", ".join(str(host) for host in status.inventory.hosts)
    print_lines(f"{status.inventory.name} ({status.place}): {hosts}")
    return status


def selected_stack(stack: str | None) -> str:
    """The named stack, otherwise the selected one.

    Raises:
        UsageError: none is selected.
    """
    selected = stack if stack is not None else pulumi_stack.current()
    if selected is None:
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
