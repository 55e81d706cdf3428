"""Reads the values for `checks` on all hosts in parallel: driver, clock, TensorFlow, links.

The links are measured like a normal run: with the same files, the same mpirun, the same ranks.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from railhead.documents.agent.commands import CommandResult
from railhead.documents.agent.runs import EndRun
from railhead.documents.codec import decode
from railhead.documents.health import LinkRates, Probed
from railhead.documents.runs.run import Script

from ..console.text import clean
from ..errors import Command, HostsNotReady, RailheadError
from ..facts import xid
from ..facts.host import HostFacts
from ..inventory.host_programs import HOST_PROGRAMS
from ..lifecycle import reach
from ..plan.cluster import SurveyedCluster
from ..plan.decide import not_let_in
from ..plan.hostfile import Peer
from ..plan.runtimes import TENSORFLOW
from ..provision.host_step import KERAS
from ..runs import start
from ..runs.launch import RunOptions, StopPolicy
from ..runs.request import RunRequest
from ..runs.run import Run, read_json
from ..runs.start import HEALTH
from ..ssh.bundle import pack_file
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import everywhere
from ..ssh.session import Session
from ..untrusted.decode import json_object
from ..untrusted.unpack import Hostile
from . import checks
from .checks import ClockOffset, Finding, HostReadings, Reduction, TensorFlowReadings

PROBE, COUNT = HOST_PROGRAMS / "probes/health_host.py", HOST_PROGRAMS / "probes/count_gpus.py"
LINKS = HOST_PROGRAMS / "probes/health_links.py"
CLOCK_READINGS = 3  # of the clock; the reading with the fastest reply counts
BENCH_SECONDS = 180.0
LINK_SECONDS = 180  # the bound also holds if this computer has disconnected
TIMED_OUT = 124  # exit code of timeout(1)
SHOWN_LINES = 6  # lines of an error that are shown
TAG = re.compile(r"\[1,(\d+)\]<std(?:out|err)>:(?: (?=\x1f))?")
# The rank that mpirun names: it exited, was killed or called MPI_Abort.
FIRST_ENDED = re.compile(
    r"Process name: \[\S+,(\d+)\]|process rank (\d+) with PID|invoked on rank (\d+) "
)
NO_PROBE = "a reading of TensorFlow that is not valid"
KILOBYTES = re.compile("[0-9]{1,15}")
REASON_LENGTH = 200  # characters of a program's message
# TensorFlow's messages about why it uses no GPU.
REASONS = re.compile(r"(Cannot dlopen some GPU|failed call to cuInit|Could not find cuda)[^\n]*")


def readings(
    sessions: Mapping[str, Session], facts: Mapping[str, HostFacts]
) -> dict[str, HostReadings]:
    """Read clock, memory and GPU errors of every host; needs no Python there."""
    return everywhere(
        sessions, lambda s: _read_host(s, facts[s.host.name]), what="reading clock and memory"
    )


def _read_host(session: Session, facts: HostFacts) -> HostReadings:
    clock = best_clock(session)
    output = session.sh("sed -n 's/^MemAvailable: *\\([0-9]*\\).*/\\1/p' /proc/meminfo")
    memory = int(output) * 1024 if KILOBYTES.fullmatch(output.strip()) else facts.memory
    has_gpu = bool(checks.gpu_cards(facts) or facts.gpus)
    return HostReadings(clock, memory, xid.parse(session.sh(xid.script())) if has_gpu else None)


def best_clock(session: Session, now: Callable[[], float] = time.time) -> ClockOffset:
    """The clock offset from the reading with the fastest reply."""
    return min((clock_of(session, now) for _ in range(CLOCK_READINGS)), key=lambda c: c.error)


def clock_of(session: Session, now: Callable[[], float] = time.time) -> ClockOffset:
    """The host's clock minus the midpoint of the request's round trip."""
    sent = now()
    output = session.sh("date +%s.%N")
    received = now()
    match = re.search(r"\d{1,12}(?:\.\d{1,12})?", output)
    remote = float(match[0]) if match else sent
    return ClockOffset(remote - (sent + received) / 2, (received - sent) / 2)


def host_findings(
    facts: Mapping[str, HostFacts],
    readings_of: Mapping[str, HostReadings],
    slots: Mapping[str, int],
) -> list[Finding]:
    """The findings that need no runtime."""
    findings = list(checks.clock_findings({name: v.clock for name, v in readings_of.items()}))
    for name, host in facts.items():
        findings += checks.gpu_findings(name, host)
        if (errors := readings_of[name].errors) is not None:
            findings += checks.error_findings(name, errors)
        findings += checks.capacity_findings(
            name, host.disk_free, readings_of[name].memory, slots[name]
        )
    return findings


def hosts_not_ready(cluster: SurveyedCluster) -> list[str]:
    """The hosts that have no runtime yet, or on which the chief cannot log in."""
    digest = cluster.environment.digest
    return [n for n, f in cluster.facts.items() if digest not in f.envs or not_let_in(cluster, n)]


def port_findings(cluster: ConnectedCluster) -> list[Finding]:
    """A finding for each host and each peer to which it cannot connect."""
    try:
        closed = start.closed_pairs(cluster)
    except HostsNotReady as wrong:  # a peer address that the host does not have
        closed = {name: "" if text == "ok" else text for name, text in wrong.outcomes.items()}
    lines = [(name, line) for name, text in closed.items() for line in text.splitlines()]
    return [Finding(name, line, start.reach_hint(line), stops_links=True) for name, line in lines]


def tensorflow_readings(
    cluster: ConnectedCluster, *, count: bool = False
) -> dict[str, TensorFlowReadings]:
    """Read which GPUs the framework sees on every host and, unless `count`, how fast it is."""
    framework = cluster.environment.runtime.framework
    if framework is TENSORFLOW:
        text, args = PROBE.read_text(), ["count"] if count else []
    else:
        text, args = COUNT.read_text(), [framework.module]
    python = cluster.environment.interpreter

    def bench(session: Session) -> TensorFlowReadings:
        argv = [python, "-I", "-", *args]  # -I: no module is imported from the home
        reply = session.run(argv, env=KERAS, text=text, timeout=BENCH_SECONDS)
        return read_probe(reply)

    return everywhere(cluster.sessions, bench, what="running TensorFlow")


def read_probe(reply: CommandResult) -> TensorFlowReadings:
    """Parse the probe's reply; without a reply, `output` is the last message."""
    lines = [clean(line) for line in reply.tail if line.strip()]
    reasons = [m[0] for m in map(REASONS.search, lines) if m]
    answers = [line for line in lines if line.startswith("{")]
    if reply.rc or not answers:
        last = [f"it ended with {reply.rc}", *lines[-1:], *reasons[-1:]][-1]
        return TensorFlowReadings(None, output=last[:REASON_LENGTH])
    probed = decode(Probed, json_object(answers[-1], NO_PROBE), what=NO_PROBE, error=Hostile)
    return TensorFlowReadings(probed.gpus, probed.devices, "".join(reasons[-1:])[:REASON_LENGTH])


def refuse_cpu_fallback(cluster: ConnectedCluster) -> None:
    """HostsNotReady unless driver and TensorFlow see all GPUs. Without GPUs nothing is run."""
    if not any(checks.gpu_cards(f) or f.gpus for f in cluster.facts.values()):
        return
    findings = {n: list(checks.gpu_findings(n, f)) for n, f in cluster.facts.items()}
    if not any(findings.values()):
        seen = tensorflow_readings(cluster, count=True)
        title = cluster.environment.runtime.framework.title
        findings = {
            name: list(checks.fallback_findings(name, facts, seen[name], title))
            for name, facts in cluster.facts.items()
        }
    if any(findings.values()):
        outcomes = {
            n: "\n".join(f"{x.problem}\ndo: {x.action}" for x in xs) for n, xs in findings.items()
        }
        raise HostsNotReady(
            "not every GPU would be used: nothing was started",
            {name: text or "ok" for name, text in outcomes.items()},
            hint=Command("health"),
        )


def reduction(cluster: ConnectedCluster) -> Reduction:
    """Measure an all-reduce over all ranks and over pairs of hosts, like a run.

    Raises:
        RailheadError: mpirun failed or took too long; the error has its last lines.
    """
    pairs = checks.pairs_of([peer.name for peer in cluster.peers])
    request = _link_check(cluster, pairs)
    check = Run(HEALTH, Path())
    ports = start.free_ports(cluster, start.processes_of(request, cluster))
    document = start.document_of(HEALTH, cluster, request, (), StopPolicy(stop=False), ports)
    start.remove_run(cluster.sessions, check)
    start.lay_out(cluster, request, document, check)
    try:
        output = _run_link_check(cluster, check)
    except RailheadError:
        with contextlib.suppress(RailheadError):
            _clean_up(cluster, check)
        raise
    _clean_up(cluster, check)
    if len(output.rates) != len(pairs):
        raise Hostile("a measurement of other links")
    rates = dict(zip(pairs, output.rates, strict=True))
    return Reduction(output.ranks, output.size, output.seconds, rates)


def end_interrupted(cluster: ConnectedCluster) -> None:
    """After Ctrl-C during a reduction: terminate it on every host and remove its files.

    This opens new connections, because those of the check still wait for mpirun's reply.

    Raises:
        RailheadError: it failed on some host; the next check removes the rest.
    """
    with reach.sessions(cluster.inventory) as sessions:
        again = replace(cluster, sessions=sessions)
        again.start_agents()
        _clean_up(again, Run(HEALTH, Path()))


def _link_check(cluster: SurveyedCluster, pairs: list[tuple[str, str]]) -> RunRequest:
    """The request for health_links.py; each host is represented by its first rank."""
    first, ranks = {}, 0
    for peer in cluster.peers:
        first[peer.name] = ranks
        ranks += peer.slots
    arg = json.dumps([[first[host], first[peer]] for host, peer in pairs])
    program = Script("script", LINKS.name, (arg,))
    return RunRequest(RunOptions(script=True), program, pack_file(LINKS), {})


def _run_link_check(cluster: ConnectedCluster, check: Run) -> LinkRates:
    """Run mpirun as the supervisor does, and read the output file of rank 0."""
    chief = cluster.sessions.chief
    argv = ["timeout", "-k", "5", str(LINK_SECONDS)]
    argv += read_json(chief, f"{check.folder}/mpirun.json", tuple[str, ...]) or ()
    reply = chief.run(argv, cwd=check.folder, env=check.environment)
    output = read_json(chief, f"{check.folder}/results/health.json", LinkRates)
    if reply.rc == TIMED_OUT:
        raise RailheadError(f"mpirun did not end within {LINK_SECONDS} s")
    if reply.rc or output is None:
        raise RailheadError(
            f"mpirun ended with {reply.rc}{first_failure(reply.tail, cluster.peers)}"
        )
    return output


def first_failure(tail: Sequence[str], peers: Sequence[Peer]) -> str:
    """The host whose rank failed first, with that rank's last lines; otherwise those of mpirun.

    mpirun puts a tag before each piece of a rank's output; ranks do not end lines with a newline.
    """
    messages, *tagged = TAG.split("\n".join(tail))
    output: dict[int, str] = {}
    for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
        piece, _, rest = text.partition("\n")
        output[int(rank)] = output.get(int(rank), "") + piece
        messages += rest
    hosts = [peer.name for peer in peers for _ in range(peer.slots)]
    match = FIRST_ENDED.search(messages)
    first = int(match[1] or match[2] or match[3]) if match else len(hosts)
    if first < len(hosts):
        return f", first on {hosts[first]}\n{_last(output.get(first, messages))}"
    return f"\n{_last(messages)}"


def _last(text: str) -> str:
    lines = [clean(line).rstrip() for line in text.replace("\x1e", "\n").split("\n")]
    shown = [x for x in lines if x.strip(" -") and not x.startswith("@railhead ")]
    return "\n".join(shown[-SHOWN_LINES:])


def _clean_up(cluster: ConnectedCluster, check: Run) -> None:
    """Terminate the remaining processes of the check, and remove its files."""

    def end(session: Session) -> None:
        session.call(EndRun(HEALTH))

    everywhere(cluster.sessions, end, what="clearing up")
    start.remove_run(cluster.sessions, check)
