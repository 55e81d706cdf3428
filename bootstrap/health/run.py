"""`fab health`: first the checks without a runtime, then TensorFlow, then the links.

It prints all readings and findings; the last line is the outcome. It leaves nothing on the hosts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from railhead.documents.outputs import HealthFinding, HealthOutput

from ..console.output import Reporter, note_output, print_lines
from ..console.text import count
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory.hosts import Inventory
from ..lifecycle import reach
from ..plan import hostfile
from ..plan.cluster import Options, SurveyedCluster
from ..plan.runtimes import TENSORFLOW, choose_runtime, gpus_of
from ..provision.survey import for_launcher, survey, with_wheel
from ..runs import start
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import Sessions, all_facts
from . import checks, measure
from .checks import Finding
from .report import HealthReport, finding_lines, reduction_lines


def health(inventory: Inventory, options: Options) -> None:
    """Print measurements and findings; RailheadError if there are findings."""
    with reach.sessions(inventory) as sessions:
        check_hosts(sessions, options, inventory.target, print_lines)


def check_hosts(
    sessions: Sessions, options: Options, target: Mapping[str, str], report: Reporter
) -> None:
    """Check all hosts; print readings and findings. `target` names the hosts in commands.

    Raises:
        UsageError: the hosts have no runtime yet, or no runtime fits; the other checks were done.
        RailheadError: there are findings.
    """
    cluster, refused = _survey(sessions, options)
    facts = cluster.facts if cluster else all_facts(sessions)
    slots = {n: s.host.slots or len(gpus_of(facts[n])) or 1 for n, s in sessions.items()}
    readings = measure.readings(sessions, facts)
    measured = HealthReport(facts, readings)
    findings = measure.host_findings(facts, readings, slots)
    if cluster:
        links = hostfile.links(cluster.peers, cluster.facts)
        measured = replace(measured, peers=cluster.peers, links=links)
        findings += _check_ports(cluster, report)
    if cluster and not refused:
        measured, more = _check_framework(cluster, measured, findings, report)
        findings += more
    else:
        for line in measured.lines():
            report(line)
    for line in finding_lines(findings, target):
        report(line)
    note_outcome(findings, refused, facts)
    _end(findings, refused, len(facts), report)


def note_outcome(
    findings: Sequence[Finding], refused: UsageError | None, hosts: Iterable[str]
) -> None:
    """Note the outcome for --json."""
    shown = (
        HealthFinding(host=x.host, problem=x.problem, action=str(x.action), counts=x.counts)
        for x in findings
    )
    healthy = not refused and not any(x.counts for x in findings)
    note_output(
        HealthOutput(
            healthy=healthy,
            hosts=tuple(hosts),
            findings=tuple(shown),
            not_checked=refused.message if refused else None,
        )
    )


def _survey(
    sessions: Sessions, options: Options
) -> tuple[ConnectedCluster | None, UsageError | None]:
    """The cluster, or None if no runtime fits; and the reason why the runtime cannot be used."""
    try:
        cluster = survey(sessions, options)
    except UsageError as wrong:
        return None, wrong
    start.refuse_second(cluster)
    if measure.hosts_not_ready(cluster):  # they may be ready for the other launchers
        cluster = for_launcher(cluster, "tensorflow")
    if options.runtime is None and measure.hosts_not_ready(cluster):
        cluster = _ready_for_another(cluster)
    if without := measure.hosts_not_ready(cluster):
        named = ", ".join(without) + (" is" if len(without) == 1 else " are")
        return cluster, UsageError(
            f"TensorFlow and the links were not checked: {named} not ready yet",
            hint=Command("bootstrap"),
        )
    return cluster, None


def _ready_for_another(cluster: ConnectedCluster) -> ConnectedCluster:
    """The cluster with the runtime of another framework, where all hosts have that one."""
    for launcher in ("jax", "torch"):
        with contextlib.suppress(UsageError):
            environment = choose_runtime(cluster.facts, launcher, None)
            other = with_wheel(replace(cluster, environment=environment))
            if not measure.hosts_not_ready(other):
                return other
    return cluster


def _check_ports(cluster: ConnectedCluster, report: Reporter) -> list[Finding]:
    cluster.start_agents()
    closed = measure.port_findings(cluster)
    pairs = len(cluster.peers) * (len(cluster.peers) - 1)
    if pairs:
        report(f"ports: {pairs - len(closed)} of {pairs} connections between hosts work")
    return closed


def _check_framework(
    cluster: ConnectedCluster, measured: HealthReport, before: list[Finding], report: Reporter
) -> tuple[HealthReport, list[Finding]]:
    """Check the framework on each host and, if that succeeds, the links between them."""
    framework = cluster.environment.runtime.framework
    product = ", and a product of matrices on each" if framework is TENSORFLOW else ""
    report(f"{framework.title} on {count(len(cluster.peers), 'host')}: devices{product}")
    tensorflow_readings = measure.tensorflow_readings(cluster)
    measured = replace(measured, tensorflow_readings=tensorflow_readings, framework=framework.title)
    for line in measured.lines():
        report(line)
    unfit = [
        finding
        for name, bench in tensorflow_readings.items()
        for finding in checks.fallback_findings(name, cluster.facts[name], bench, framework.title)
    ]
    machines = {name: facts.boot_id for name, facts in cluster.facts.items()}
    findings = [*unfit, *checks.speed_findings(tensorflow_readings, machines)]
    if why := _no_links(cluster, unfit + before):
        report(f"all-reduce: not measured, {why}")
    else:
        findings += _measure_links(cluster, report)
    return measured, findings


def _no_links(cluster: SurveyedCluster, findings: list[Finding]) -> str:
    """Why an all-reduce is impossible or would hang; empty if it can run."""
    if not cluster.environment.horovod:
        return "Horovod is not installed"
    if sum(peer.slots for peer in cluster.peers) < 2:
        return "there is only one rank"
    return "because of the findings below" if any(x.stops_links for x in findings) else ""


def _measure_links(cluster: ConnectedCluster, report: Reporter) -> list[Finding]:
    report("all-reduce with mpirun and Horovod, as in a run")
    try:
        reduction = measure.reduction(cluster)
    except RailheadError as wrong:
        then = "; then docs/troubleshooting.md, by the message of mpirun"
        action = wrong.next if wrong.hint else Hint(Command("bootstrap"), then)
        return [Finding("all hosts", f"the all-reduce failed: {wrong.message}", action)]
    except KeyboardInterrupt:
        _end_interrupted(cluster, report)
        raise
    for line in reduction_lines(reduction, [peer.name for peer in cluster.peers]):
        report(line)
    return list(checks.pair_findings(reduction.pairs))


def _end_interrupted(cluster: ConnectedCluster, report: Reporter) -> None:
    report(
        "\nCtrl-C: terminating the all-reduce on every host; press Ctrl-C again to leave that to"
        " the next check"
    )
    try:
        measure.end_interrupted(cluster)
    except RailheadError as wrong:
        report(f"left to the next check: {wrong.message}")


def _end(findings: list[Finding], refused: UsageError | None, hosts: int, report: Reporter) -> None:
    counted = [finding for finding in findings if finding.counts]
    if refused:
        raise refused
    if counted:
        raise RailheadError(
            f"not healthy: {count(len(counted), 'finding')}; each line says what to do"
        )
    report(f"healthy: {count(hosts, 'host')}")
