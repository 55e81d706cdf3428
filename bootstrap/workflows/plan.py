"""`fab plan`: connect, read the facts, decide, print. Changes nothing on the hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from bootstrap.console.output import print_lines
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.plan import decide
from bootstrap.plan.cluster import Cluster, Options
from bootstrap.plan.steps import Plan
from bootstrap.provision import survey
from bootstrap.ssh.cluster import ConnectedCluster


def plan(inventory: Inventory, options: Options, json_out: TextIO | None = None) -> None:
    """Print what `bootstrap` and `train` would do on each host, and why."""
    with surveyed(inventory, options) as cluster:
        print_plan(cluster, options, json_out)
        print_lines("nothing was changed")


@contextmanager
def surveyed(inventory: Inventory, options: Options) -> Iterator[ConnectedCluster]:
    """The cluster with its facts and an open session with each host."""
    with reach.sessions(inventory) as sessions:
        yield survey.survey(sessions, options)


def print_plan(cluster: Cluster, options: Options, json_out: TextIO | None) -> Plan:
    """Decide the plan and print it: as text, and as JSON to `json_out`."""
    decided = decide.decide(cluster, options)
    print_lines(*decided.describe())
    if json_out:
        print(json.dumps(decided.document()), file=json_out, flush=True)
    return decided
