"""`fab train`: bootstrap, check that the hosts reach each other, start the run, follow it."""

from __future__ import annotations

import time
from dataclasses import field, replace
from ipaddress import ip_address
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import EndingOptions, ProgramOptions, StartOptions
from railhead.documents.runs.run import RunData, Script

from ..console.output import note_output, print_lines, print_result
from ..console.text import count
from ..data.inputs import check_shares
from ..errors import Command, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..lifecycle import deadlines, stop_policy
from ..plan.cluster import Options, SurveyedCluster
from ..plan.runtimes import REPO, gpus_of
from ..provision.survey import for_launcher
from ..runs import results, start
from ..runs.earlier_run import EarlierRun, changed_data, earlier_run
from ..runs.failures.retries import check_elastic, check_takeover
from ..runs.follow import RunConnection
from ..runs.launch import StopPolicy, placement_of
from ..runs.request import RunRequest
from ..runs.run import Run
from ..runs.strategies import Strategy
from ..ssh.cluster import ConnectedCluster
from . import attach, resume
from .bootstrap import make_ready
from .plan import ready_options, surveyed


@dataclass(frozen=True)
class TrainOptions:
    """The run request, the options to make the hosts ready, and the local results folder.
    `detach`: return when the run has started. `earlier`: the run that is resumed.
    `whole`: the cluster that the hosts belong to; its record stays unchanged."""

    request: RunRequest
    options: Options
    results: Path
    detach: bool = False
    stop_policy: StopPolicy = field(default_factory=StopPolicy)
    earlier: EarlierRun | None = None
    whole: Inventory | None = None


def train_options(
    program: ProgramOptions,
    ready: ReadyOptions,
    ending: EndingOptions,
    begin: StartOptions,
    folder: Path,
) -> TrainOptions:
    """The validated options of `fab train`; the results go to `folder`. UsageError for an invalid
    value."""
    check_deploy(begin)
    policy = stop_policy.stop_policy_of(ending)
    earlier = None if begin.resume is None else earlier_run(begin.resume)
    request, program = resume.request_for(program, earlier)
    request, lines = resume.with_retries(request, earlier, begin)
    request = replace(request, options=replace(request.options, name=begin.name or ""))
    print_lines(*lines)
    chosen = ready_options(ready, program, launcher=request.options.launcher)
    chosen = replace(chosen, takeover=request.options.retries.takeover)
    return TrainOptions(request, chosen, folder, not begin.wait, policy, earlier)


def check_deploy(begin: StartOptions) -> None:
    """UsageError if the endpoint of --deploy cannot have this name, or nobody waits for the run."""
    if begin.deploy is not None:
        from ..serving.request import check_model_name

        check_model_name(begin.deploy, "--deploy")
        if not begin.wait:
            raise UsageError("--deploy goes without --detach: it follows a run that has succeeded")


def train(inventory: Inventory, options: TrainOptions) -> Run:
    """Run a training on the hosts, from bootstrap to the fetched results."""
    options.request.options.resolved_strategy(len(inventory.hosts))
    check_elastic(options.request.options, len(inventory.hosts))
    check_takeover(options.request.options, len(inventory.hosts), inventory.bucket)
    if not options.request.options.resolved_strategy(len(inventory.hosts)).one_host:
        refuse_alone(options.request, sum(host.slots or 1 for host in inventory.hosts))
    results.require_writable(options.results)
    check_shares(options.request.data, len(inventory.hosts))
    policy = stop_policy.within_budget(inventory, options.stop_policy, time.time())
    options = replace(options, stop_policy=policy)
    if deadline := stop_policy.check_before_run(inventory, options.stop_policy):
        print_lines(deadline)
    with surveyed(inventory, options.options) as cluster:
        start.refuse_second(cluster)
        restore = resume.find_checkpoints(cluster, options.earlier) if options.earlier else None
        deadlines.cover_run(cluster, options.stop_policy, print_lines)
        if policy.spent_at is not None:
            deadlines.limit(cluster, policy.spent_at, print_lines)
        with stop_policy.preparing(inventory, print_result):
            run = _start(cluster, options, restore)
        note_output(attach.output_of(run, None))
        print_lines(f"run {run.run_id} started; it continues if this connection breaks")
        if options.detach:
            print_result(f"next: {Command('attach', run=run.run_id)}")
        else:
            connection = RunConnection(run, inventory, cluster.sessions.chief)
            attach.follow_started(connection)
            attach.finish(connection)
    return run


def _start(cluster: ConnectedCluster, options: TrainOptions, restore: start.Restore | None) -> Run:
    """Make the hosts ready, check that they reach each other, and start the run."""
    local_state.save_cluster(options.whole or cluster.inventory)
    options = replace(options, request=with_strategy(options.request, cluster))
    placement = placement_of(options.request.options, cluster.peers)
    refuse_alone(options.request, sum(map(len, placement)))
    cluster = for_launcher(cluster, options.request.options.launcher)
    print_lines(run_summary(options.request, cluster), *open_ports(options.request, cluster))
    cluster = make_ready(cluster, options.options)
    cluster.start_agents()
    _refuse_cpu_fallback(cluster)
    data = _place_data(options.request, cluster)
    if options.earlier:
        print_lines(*changed_data(options.earlier, data))
    request, policy = options.request, options.stop_policy.from_now(time.time())
    return start.start(cluster, request, data, options.results, policy, restore)


def _refuse_cpu_fallback(cluster: ConnectedCluster) -> None:
    """HostsNotReady if a GPU would not be used."""
    if any(facts.gpus or facts.gpu.cards for facts in cluster.facts.values()):
        from ..health import measure  # imported late: other hosts need none of it

        measure.refuse_cpu_fallback(cluster)


def _place_data(request: RunRequest, cluster: ConnectedCluster) -> list[RunData]:
    """The data of a run, on all hosts."""
    if not request.data:
        return []
    from ..data.place import place_data  # imported late: most runs have none

    start.refuse_closed_pairs(cluster)  # before data is sent for hours
    return place_data(request.data, cluster)


def refuse_alone(request: RunRequest, ranks: int) -> None:
    """UsageError for a script that would train alone on each of several ranks."""
    if request.alone and ranks > 1 and isinstance(request.program, Script):
        raise UsageError(
            f"{request.program.path} has nothing by which {ranks} ranks of launcher"
            f" {request.options.launcher} join each other: each would train alone, over all of its"
            " data",
            hint=request.alone,
        )


def with_strategy(request: RunRequest, cluster: SurveyedCluster) -> RunRequest:
    """The request with a strategy in place of `auto`; prints which one, and why."""
    gpus = len(gpus_of(cluster.facts[cluster.chief]))
    slots = [peer.slots for peer in cluster.peers]
    horovod = cluster.environment.horovod and not (cluster.incomplete and cluster.wheel is None)
    chosen, why = request.options.with_strategy(slots, gpus, horovod=horovod)
    if why:
        print_lines(f"strategy auto: {chosen.strategy}, because there is {why}")
    return replace(request, options=chosen)


def run_summary(request: RunRequest, cluster: SurveyedCluster) -> str:
    """One line for the plan: program, strategy, ranks, Keras version and why."""
    strategy = request.options.resolved_strategy(len(cluster.peers))
    keras = request.options.keras
    placement = placement_of(request.options, cluster.peers)
    hosts = count(len(cluster.peers), "host")
    return (
        f"{program_summary(request)}: {strategy.name} over "
        f"{count(sum(map(len, placement)), 'rank')} on "
        f"{hosts}{roles_summary(strategy, placement, cluster)}; Keras {keras.version}: {keras.why}"
    )


TENSORFLOW_PORTS = ("TensorFlow's", "read and write all files of the run's user")
OPEN_MPI_PORTS = ("Open MPI's", "end the run")


def open_ports(request: RunRequest, cluster: SurveyedCluster) -> list[str]:
    """One line if others may reach the ports of a run: other machines, unless a stack's firewall or
    loopback keeps them out; other users of a host, unless the run uses root there."""
    if cluster.inventory.is_managed:
        return []
    strategy = request.options.resolved_strategy(len(cluster.peers))
    owner, harm = TENSORFLOW_PORTS if strategy.roles else OPEN_MPI_PORTS
    open_hosts = [peer for peer in cluster.peers if not ip_address(peer.address).is_loopback]
    shared = [peer.name for peer in cluster.peers if not cluster.facts[peer.name].root]
    who = ["other machines"] if open_hosts else []
    who += [f"other users of {', '.join(shared)}"] if shared else []
    if not who:
        return []
    return [
        f"{owner} ports have no authentication: {' and '.join(who)} that reach one can {harm};"
        " let a firewall allow only the hosts (docs/security.md#network-ports)"
    ]


def program_summary(request: RunRequest) -> str:
    """The program of the ranks, with the model if it is an evaluation."""
    if isinstance(request.program, Script):
        program = f"script {request.program.path}"
    else:
        program = f"the built-in {request.program.kind}"
        if request.bundle.root != REPO:
            program += f", as in {request.bundle.root / 'training'}"
    evaluated = request.options.evaluates
    return f"{program} on the model of run {evaluated}" if evaluated else program


def roles_summary(strategy: Strategy, placement: list[list[str]], cluster: SurveyedCluster) -> str:
    """The roles of each host, such as " (h1: chief, worker; h2: ps, worker)"."""
    if not strategy.has_servers:
        return ""
    hosts = [
        f"{peer.name}: {', '.join(roles)}"
        for peer, roles in zip(cluster.peers, placement, strict=True)
    ]
    return f" ({'; '.join(hosts)})"
