"""`fab train`: bootstrap, check that the hosts reach each other, start the run, follow it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.clouds import base
from bootstrap.console.output import print_lines
from bootstrap.console.text import count
from bootstrap.health import measure
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import deadlines, stop_policy
from bootstrap.plan.cluster import Cluster, Options
from bootstrap.runs import start
from bootstrap.runs.follow import RunConnection
from bootstrap.runs.launch import StopPolicy
from bootstrap.runs.request import RunRequest
from bootstrap.runs.start import Run
from bootstrap.ssh.agents import start_agents
from bootstrap.ssh.session import Session
from bootstrap.workflows import attach
from bootstrap.workflows.bootstrap import make_ready
from bootstrap.workflows.plan import surveyed


@dataclass(frozen=True)
class TrainOptions:
    """The run request, the options to make the hosts ready, and the local results folder.
    `detach`: return when the run has started."""

    request: RunRequest
    options: Options
    results: Path
    detach: bool = False
    stop_policy: StopPolicy = field(default_factory=StopPolicy)


def train(inventory: Inventory, options: TrainOptions) -> Run:
    """Run a training on the hosts, from bootstrap to the fetched results."""
    options.request.options.resolved_strategy(len(inventory.hosts))
    if deadline := stop_policy.check_before_run(inventory, options.stop_policy):
        print_lines(deadline)
    with surveyed(inventory, options.options) as (cluster, sessions):
        start.refuse_second(cluster)
        if inventory.kind.in_cloud:
            cloud, policy = base.cloud_of(inventory), options.stop_policy
            deadlines.cover_run(inventory, cloud, sessions, policy, print_lines)
        with stop_policy.preparing(inventory, print_lines):
            run = _start(cluster, sessions, options)
        print_lines(f"run {run.run_id} started; it continues if this connection breaks")
        if options.detach:
            print_lines(f"next: fab attach --run {run.run_id}")
        else:
            connection = RunConnection(run, inventory, sessions[cluster.chief])
            attach.follow(connection, interrupt_cancels=True)
            attach.finish(connection)
    return run


def _start(cluster: Cluster, sessions: dict[str, Session], options: TrainOptions) -> Run:
    """Make the hosts ready, check that they reach each other, and start the run."""
    local_state.save_cluster(cluster.inventory)
    print_lines(run_summary(options.request, cluster))
    cluster = make_ready(cluster, sessions, options.options)
    start_agents(cluster, sessions)
    measure.refuse_cpu_fallback(cluster, sessions)
    start.refuse_closed_pairs(cluster, sessions)
    return start.start(cluster, sessions, options.request, options.results, options.stop_policy)


def run_summary(request: RunRequest, cluster: Cluster) -> str:
    """One line for the plan: program, strategy, ranks, Keras version and why."""
    strategy = request.options.resolved_strategy(len(cluster.peers))
    keras, why = request.options.resolved_keras(strategy)
    ranks = sum(strategy.processes(peer.slots) for peer in cluster.peers)
    script = request.program.kind == "script"
    program = f"script {request.program.path}" if script else "the training of Railhead"
    return (
        f"{program}: {strategy.name} over {count(ranks, 'rank')} on "
        f"{count(len(cluster.peers), 'host')}; Keras {keras}: {why}"
    )
