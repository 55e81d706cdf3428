"""Formats the readings and findings of a health check as tables and lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from statistics import median_low

from railhead.documents.lazy import dataclass

from ..console.text import clean, count, size, table_lines
from ..errors import Hint
from ..facts.host import HostFacts
from ..plan.hostfile import Link, Peer
from ..plan.runtimes import TENSORFLOW
from .checks import (
    Finding,
    HostReadings,
    Reduction,
    TensorFlowReadings,
    gpu_cards,
    shown_skew,
    times,
)

HEADS = ("host", "GPUs", "clock", "disk free", "memory free", "matmul", "interface")


@dataclass(frozen=True)
class HealthReport:
    """All readings; those that are not available are empty."""

    facts: Mapping[str, HostFacts]
    readings: Mapping[str, HostReadings]
    peers: Sequence[Peer] = ()
    links: Sequence[Link] = ()
    tensorflow_readings: Mapping[str, TensorFlowReadings] = field(default_factory=dict)
    framework: str = TENSORFLOW.title

    def lines(self) -> list[str]:
        """A table with a row per host, and a line about the slowest host."""
        rows = [HEADS, *(self._row(name) for name in self.facts)]
        return [*table_lines(rows), *self._slowest()]

    def _row(self, name: str) -> tuple[str, ...]:
        facts, readings = self.facts[name], self.readings[name]
        clock = f"{shown_skew(readings.clock.skew)}, +-{readings.clock.error * 1000:.1f} ms"
        room = (size(facts.disk_free), size(readings.memory))
        return (name, self._gpus(name), clock, *room, self._matmul(name), self._interface(name))

    def _gpus(self, name: str) -> str:
        """The number of GPUs; by source if the bus, the driver and the framework disagree."""
        facts, bench = self.facts[name], self.tensorflow_readings.get(name)
        counts = {"PCI": gpu_cards(facts)} if gpu_cards(facts) else {}
        counts["nvidia-smi"] = len(facts.gpus)
        if bench and bench.gpus is not None:
            counts[self.framework] = bench.gpus
        if len(set(counts.values())) == 1:
            return str(len(facts.gpus) or "none")
        return ", ".join(f"{number} by {source}" for source, number in counts.items())

    def _matmul(self, name: str) -> str:
        bench = self.tensorflow_readings.get(name)
        if not bench or not bench.devices:
            return "-"
        slowest = bench.slowest
        return f"{slowest.speed / 1e9:,.0f} GFLOP/s in {slowest.seconds * 1000:.1f} ms"

    def _interface(self, name: str) -> str:
        for peer, link in zip(self.peers, self.links, strict=True):
            if peer.name == name:
                return f"{link.device or 'behind a NAT'} {peer.address}"
        return "-"

    def _slowest(self) -> list[str]:
        slowest = {
            n: bench.slowest for n, bench in self.tensorflow_readings.items() if bench.devices
        }
        if len(slowest) < 2:
            return []
        usual = median_low([device.seconds for device in slowest.values()])
        name = max(slowest, key=lambda n: slowest[n].seconds)
        took = times(slowest[name].seconds, usual)
        return [f"the slowest host is {name}: its matmul takes {took} the median's"]


def reduction_lines(reduction: Reduction, hosts: Sequence[str]) -> list[str]:
    """The all-reduce with both bandwidths; for more than two hosts also the pairs."""
    title = f"all-reduce of {size(reduction.size)} over {count(reduction.ranks, 'rank')}"
    rates = f"{size(reduction.algorithm)}/s (bytes / time), {size(reduction.bus)}/s on the wire"
    lines = [f"{title}: {reduction.seconds * 1000:.1f} ms, {rates} (times 2(n-1)/n)"]
    return lines + (matrix(reduction.pairs, hosts) if reduction.pairs else [])


def matrix(pairs: Mapping[tuple[str, str], float], hosts: Sequence[str]) -> list[str]:
    """A table of the bandwidth between each measured pair of hosts, and the slowest pair."""
    both = {**pairs, **{(peer, host): rate for (host, peer), rate in pairs.items()}}
    rows = [["pairs", *hosts]]
    for host in hosts:
        rates = [both.get((host, other)) for other in hosts]
        rows.append([host, *(f"{size(rate)}/s" if rate else "." for rate in rates)])
    host, peer = min(pairs, key=lambda pair: pairs[pair])
    usual = median_low(pairs.values())
    slowest = f"the slowest pair is {host} and {peer}: {size(pairs[host, peer])}/s"
    return [*table_lines(rows), f"{slowest}, the median pair reaches {size(usual)}/s"]


def finding_lines(findings: Sequence[Finding], target: Mapping[str, str]) -> list[str]:
    """Each finding with its action; those that do not count are marked as notes.

    `target` names the hosts in commands (Inventory.target)."""
    lines = []
    for finding in findings:
        first, *rest = [clean(line) for line in finding.problem.splitlines()]
        lines.append(f"[{finding.host}] {'' if finding.counts else 'note: '}{first}")
        lines += [f"  | {line}" for line in rest]
        action = Hint(finding.action).completed(lambda command: command.at(target))
        lines.append(f"  do: {action}")
    return lines
