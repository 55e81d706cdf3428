"""`fab demo`: start two SSH hosts on this machine, train on them, tear them down."""

from __future__ import annotations

from pathlib import Path

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.console.output import print_lines
from bootstrap.errors import Command
from bootstrap.inventory import local_state
from bootstrap.lifecycle.receipt import check
from bootstrap.lifecycle.teardown import remove_from_hosts
from bootstrap.plan.cluster import Options
from bootstrap.runs.request import read_request
from bootstrap.workflows.train import TrainOptions, train
from railhead.documents.options.runs import ProgramOptions


def demo(results: Path) -> None:
    """Start two local hosts, train on them, and always tear them down."""
    inventory = local_cluster.start(local_state.DEMO, 2)
    print_lines("two SSH hosts on this machine: " + ", ".join(str(h) for h in inventory.hosts))
    try:
        request = read_request(ProgramOptions(preset="digits"))
        train(inventory, TrainOptions(request, Options(), results))
    finally:
        receipt = remove_from_hosts(inventory)
        print_lines(*receipt.describe())
    check(receipt, Command("teardown"))
