"""The ways through the rooms that a person takes: plan, make ready, train, take away.

Tasks name a journey; journeys put the pieces in order and say what happens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.console.live import Board
from bootstrap.console.output import print_lines
from bootstrap.console.text import count
from bootstrap.errors import UsageError
from bootstrap.health import measure
from bootstrap.health import run as examine
from bootstrap.inventory import local_state
from bootstrap.inventory import pulumi_stack as pulumi
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import destroy as destroy_stack
from bootstrap.lifecycle import power, reach, stop_policy
from bootstrap.lifecycle.receipt import check
from bootstrap.lifecycle.teardown import remove_from_hosts, teardown_hosts
from bootstrap.plan import decide
from bootstrap.plan.cluster import Cluster, Options
from bootstrap.plan.steps import Plan
from bootstrap.provision import apply, survey
from bootstrap.runs import start as run
from bootstrap.runs.launch import StopPolicy
from bootstrap.runs.request import RunRequest, TrainArgs, read_request
from bootstrap.runs.start import Run
from bootstrap.ssh.agents import start_agents
from bootstrap.ssh.session import Session
from bootstrap.workflows import watch


def look(
    hosts: str | None, *, slots: int | None = None, stack: str | None = None
) -> power.ClusterStatus:
    """The hosts that were named, else those of a stack, else those of the last command, as they
    stand now; said in the first line."""
    if hosts is not None and stack is not None:
        raise UsageError("--hosts and --stack both say which hosts: give one of them")
    if hosts is not None:
        inventory = parse_hosts(hosts, slots=slots)
    else:
        made_by = stack if stack is not None else pulumi.current()
        inventory = (
            pulumi.cluster_of(made_by) if made_by is not None else local_state.last_cluster()
        )
    seen = power.cluster_status(inventory)
    named = ", ".join(str(h) for h in seen.inventory.hosts)
    print_lines(f"{inventory.name} ({seen.place}): {named}")
    return seen


def hosts_of(
    hosts: str | None,
    *,
    slots: int | None = None,
    stack: str | None = None,
    start: bool = False,
) -> Inventory:
    """As `look`; a stack's machines all run, and their keys are pinned. UsageError when some do
    not run, unless they are to be started."""
    return power.ensure_running(
        look(hosts, slots=slots, stack=stack), print_lines, start_them=start
    )


@contextmanager
def surveyed(
    inventory: Inventory, options: Options
) -> Iterator[tuple[Cluster, dict[str, Session]]]:
    """Connected to all hosts, with their facts read."""
    with reach.sessions(inventory) as opened:
        yield survey.survey(inventory, opened, options), opened


def _decide(cluster: Cluster, options: Options, out: TextIO | None) -> Plan:
    """The plan, told to people and, to `out`, to programs."""
    todo = decide.decide(cluster, options)
    print_lines(*todo.describe())
    if out:
        print(json.dumps(todo.document()), file=out, flush=True)
    return todo


def plan(inventory: Inventory, options: Options, out: TextIO | None = None) -> None:
    """Print what `bootstrap` and `train` would do; changes nothing."""
    with surveyed(inventory, options) as (cluster, _):
        _decide(cluster, options, out)
        print_lines("nothing was changed")


def bootstrap(inventory: Inventory, options: Options, out: TextIO | None = None) -> None:
    """Make the hosts ready."""
    with surveyed(inventory, options) as (cluster, opened):
        local_state.save_cluster(inventory)
        make_ready(cluster, opened, options, out)


def make_ready(
    cluster: Cluster,
    opened: dict[str, Session],
    options: Options,
    out: TextIO | None = None,
) -> Cluster:
    """Decide, print and apply the plan; nothing to do is an answer. Returns what is now there; a
    host that rebooted has a new session in `opened`."""
    todo = _decide(cluster, options, out)
    if todo.nothing_to_do:
        print_lines("all hosts are ready: nothing was changed")
        return cluster
    with Board(sys.stdout, todo.hosts) as board:
        return apply.apply(cluster, todo, opened, board)


def health(inventory: Inventory, options: Options) -> None:
    """Check the hosts before a run; leaves nothing on them."""
    with reach.sessions(inventory) as opened:
        examine.check_hosts(inventory, options, opened, print_lines)


@dataclass(frozen=True)
class TrainOptions:
    """How a training is to be run: what, on hosts made ready how, and where results go."""

    asked: RunRequest
    options: Options
    results: Path
    detach: bool = False
    ending: StopPolicy = field(default_factory=StopPolicy)


def train(inventory: Inventory, trip: TrainOptions) -> Run:
    """The whole way from hosts to results."""
    trip.asked.ask.settled_strategy(len(inventory.hosts))
    if deadline := stop_policy.check_before_run(inventory, trip.ending):
        print_lines(deadline)
    with surveyed(inventory, trip.options) as (cluster, opened):
        run.refuse_second(cluster)
        with stop_policy.preparing(inventory, print_lines):
            started = _start(cluster, opened, trip)
        print_lines(f"run {started.run_id} started; it goes on if this connection breaks")
        if not trip.detach:
            watch.keep(inventory, opened, started, keyboard_ends_it=True)
            watch.finish(inventory, opened, started)
        else:
            print_lines(f"next: fab attach --run {started.run_id}")
    return started


def _start(cluster: Cluster, opened: dict[str, Session], trip: TrainOptions) -> Run:
    """Make the hosts ready, see that they reach each other, and start the run."""
    local_state.save_cluster(cluster.inventory)
    print_lines(*choices(trip.asked, cluster))
    cluster = make_ready(cluster, opened, trip.options)
    start_agents(cluster, opened)
    measure.refuse_cpu_fallback(cluster, opened)
    run.refuse_closed_pairs(cluster, opened)
    return run.start(cluster, opened, trip.asked, trip.results, trip.ending)


def choices(asked: RunRequest, cluster: Cluster) -> list[str]:
    """What was chosen for the run and why, for the plan."""
    strategy = asked.ask.settled_strategy(len(cluster.peers))
    keras, why = asked.ask.settled_keras(strategy)
    slots = sum(p.slots for p in cluster.peers) if strategy == "horovod" else len(cluster.peers)
    kind = "script " + asked.program.path if asked.program.kind == "script" else "our own training"
    return [
        f"{kind}: {strategy} over {count(slots, 'rank')} on {count(len(cluster.peers), 'host')}; "
        f"Keras {keras}: {why}"
    ]


def teardown(
    inventory: Inventory,
    *,
    purge: bool,
    discard: bool,
    destroy: bool,
    yes: bool = False,
    with_bucket: bool = False,
) -> None:
    """Take away what is ours, stop a stack's machines or destroy them, and print the receipt."""
    if with_bucket and not (destroy and inventory.bucket):
        raise UsageError("--with-bucket goes with --destroy, for a stack that has a bucket")
    if inventory.is_managed:
        receipt = destroy_stack.teardown_stack(
            inventory, discard=discard, destroyed=destroy, yes=yes, with_bucket=with_bucket
        )
    else:
        receipt = teardown_hosts(inventory, purge=purge, discard=discard, destroy=destroy)
    check(receipt)


def demo(results: Path) -> None:
    """Two SSH hosts on this machine, from nothing to the receipt."""
    inventory = local_cluster.start("demo", 2)
    print_lines("two SSH hosts on this machine: " + ", ".join(str(h) for h in inventory.hosts))
    try:
        train(inventory, TrainOptions(read_request(TrainArgs(preset="digits")), Options(), results))
    finally:
        receipt = remove_from_hosts(inventory)
        print_lines(*receipt.describe())
    check(receipt)
