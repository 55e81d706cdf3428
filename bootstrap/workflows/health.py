"""`fab health`: check the hosts before a run. Leaves nothing on them."""

from __future__ import annotations

from bootstrap.console.output import print_lines
from bootstrap.health import run
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.plan.cluster import Options


def health(inventory: Inventory, options: Options) -> None:
    """Print measurements and findings; RailheadError if there are findings."""
    with reach.sessions(inventory) as sessions:
        run.check_hosts(sessions, options, print_lines)
