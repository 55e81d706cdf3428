"""Machines that `fab up --replace` has created again while a command works on their stack."""

from __future__ import annotations

from ..clouds import base
from ..console.output import Reporter
from ..errors import RailheadError
from ..inventory import pulumi_stack
from ..inventory.hosts import Inventory


def current(inventory: Inventory, report: Reporter) -> Inventory:
    """The hosts of a stack with the ids of now: where one is gone, the stack is read again. The
    inventory itself where none was created again, or the stack cannot be read."""
    if not inventory.stack or inventory.is_adopted:
        return inventory
    states = base.cloud_of(inventory).instance_states()
    gone = [name for name, state in states.items() if state.state == "gone"]
    if not gone:
        return inventory
    try:
        now = pulumi_stack.cluster_of(inventory.stack).only(inventory.names)
    except RailheadError as error:
        report(f"whether {', '.join(gone)} was created again is not known: {error.message}")
        return inventory
    ids = {host.name: host.id for host in inventory.hosts}
    is_same = ids == {host.name: host.id for host in now.hosts}
    return inventory if is_same or now.names != inventory.names else now
