"""`fab bootstrap`: plan, then apply the plan."""

from __future__ import annotations

from typing import TextIO

from ..console.live import board_of
from ..console.output import print_lines
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..plan.cluster import Options
from ..provision.survey import with_egress
from ..ssh.cluster import ConnectedCluster
from .plan import print_plan, surveyed


def bootstrap(inventory: Inventory, options: Options, json_out: TextIO | None = None) -> None:
    """Make the hosts ready. Changes nothing on hosts that are ready."""
    with surveyed(inventory, options) as cluster:
        local_state.save_cluster(cluster.inventory)
        make_ready(cluster, options, json_out)


def bootstrap_idle(inventory: Inventory, options: Options) -> None:
    """Like `bootstrap`, but change nothing while a run is in progress on a host: that run may have
    another chief, whose key must stay."""
    with surveyed(inventory, options) as cluster:
        local_state.save_cluster(cluster.inventory)
        if not any(facts.run_processes for facts in cluster.facts.values()):
            make_ready(cluster, options)


def make_ready(
    cluster: ConnectedCluster, options: Options, json_out: TextIO | None = None
) -> ConnectedCluster:
    """Print the plan and apply it. Returns the cluster with its new facts and new sessions with the
    hosts that rebooted."""
    cluster = with_egress(cluster)
    decided = print_plan(cluster, options, json_out)
    if decided.nothing_to_do:
        print_lines("all hosts are ready: nothing was changed")
        return cluster
    from ..provision import apply  # imported late: runs on hosts that are ready start sooner

    with board_of(decided.hosts) as board:
        return apply.apply(cluster, decided, board)
