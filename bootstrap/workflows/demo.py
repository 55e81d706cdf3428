"""`fab demo`: start two SSH hosts on this computer, train on them, tear them down."""

from __future__ import annotations

from pathlib import Path

from railhead.documents.options.runs import ProgramOptions

from ..clouds.local import cluster as local_cluster
from ..console.output import print_lines
from ..errors import Command
from ..inventory import local_state
from ..lifecycle.receipt import check
from ..lifecycle.teardown import remove_from_hosts
from ..plan.cluster import Options
from ..runs.request import read_request
from .train import TrainOptions, train


def demo(results: Path) -> None:
    """Start two local hosts, train on them, and always tear them down."""
    inventory = local_cluster.start(local_state.DEMO, 2)
    print_lines("two SSH hosts on this computer: " + ", ".join(str(h) for h in inventory.hosts))
    try:
        request = read_request(ProgramOptions(preset="digits"))
        train(inventory, TrainOptions(request, Options(), results))
    finally:
        receipt = remove_from_hosts(inventory)
        print_lines(*receipt.describe())
    check(receipt, Command("teardown"))
