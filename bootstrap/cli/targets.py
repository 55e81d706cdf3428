"""Resolves the hosts of a command. No other module reads --hosts or --stack."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.console.output import print_lines
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state, pulumi_stack
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import power
from bootstrap.lifecycle.power import ClusterStatus


@dataclass(frozen=True)
class Target:
    """The hosts of a command: `hosts` (the text of --hosts), else the machines of `stack`, else the
    hosts of `run`, else the machines of the selected stack, else the hosts of the last command.
    `slots` is the number of ranks per host for entries of `hosts` without a number. `start`: start
    the stack's machines that do not run.
    """

    hosts: str | None = None
    stack: str | None = None
    slots: int | None = None
    start: bool = False
    run: str | None = None

    def __post_init__(self) -> None:
        if self.hosts is not None and self.stack is not None:
            raise UsageError("--hosts and --stack both say which hosts: give one of them")

    def status(self) -> ClusterStatus:
        """The hosts and, for a stack, the current state of each machine. Prints one line."""
        status = power.cluster_status(self._inventory())
        hosts = ", ".join(str(host) for host in status.inventory.hosts)
        print_lines(f"{status.inventory.name} ({status.place}): {hosts}")
        return status

    def running(self) -> Inventory:
        """The hosts, all of them running and with pinned host keys.

        Raises:
            UsageError: some machines do not run, and `start` is not set.
        """
        return power.ensure_running(self.status(), print_lines, start_them=self.start)

    def _inventory(self) -> Inventory:
        if self.hosts is not None:
            return parse_hosts(self.hosts, slots=self.slots)
        if self.stack is not None:
            return pulumi_stack.cluster_of(self.stack)
        recorded = local_state.cluster_of_run(self.run) if self.run is not None else None
        stack = recorded.stack if recorded else pulumi_stack.current()
        if stack is not None:
            return pulumi_stack.cluster_of(stack)
        return recorded or local_state.last_cluster()
