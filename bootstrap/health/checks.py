"""Whether hosts are fit for a run: what was measured becomes findings that say what to do. Pure.

A run over several hosts is as fast as the slowest of them, and ranks wait for each other: a host
or a link that is far from the rest is a finding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median_low

from bootstrap.console.text import count, size
from bootstrap.facts.host import HostFacts
from bootstrap.facts.xid import RESET, Errors
from bootstrap.plan.runtimes import gpus_of

CLOCK_LIMIT = 1.0  # seconds: beyond it, records of two hosts stand in the wrong order
DISK_LIMIT = 2_000_000_000  # bytes: a rank's log alone takes up to 100 MB, a model's files more
MEMORY_LIMIT = 1_000_000_000  # bytes for each rank: TensorFlow and Horovod alone took 0.45 GB
SLOW = 2.0  # times the time that the median takes
ALL_PAIRS_HOSTS = 8  # hosts up to which each pair is measured; beyond, each host with the next
THIS_MACHINE = "here"  # where a finding is about the machine on which the command was typed


@dataclass(frozen=True)
class Finding:
    """What is wrong where, and what to do. One that does not count is told, and all the same the
    hosts are healthy; with one that stops links, an all-reduce would fail or hang."""

    host: str
    what: str
    action: str
    counts: bool = True
    stops_links: bool = False


@dataclass(frozen=True)
class ClockOffset:
    """A host's clock against ours, in seconds; the answer's way may be off by `error`."""

    skew: float
    error: float

    @property
    def is_off(self) -> bool:
        """Whether it is beyond the limit wherever in its error it really is."""
        return abs(self.skew) - self.error > CLOCK_LIMIT


@dataclass(frozen=True)
class HostReadings:
    """What a host answered without a runtime; `errors` is None where it has no GPU."""

    clock: ClockOffset
    memory: int
    errors: Errors | None = None


@dataclass(frozen=True)
class Device:
    """A product of matrices of `width` rows on one device: its best time, and if it is right."""

    name: str
    width: int
    seconds: float
    right: bool

    @property
    def speed(self) -> float:
        """Floating-point operations per second: 2 * width cubed, over the time."""
        return 2 * self.width**3 / self.seconds


@dataclass(frozen=True)
class TensorFlowReadings:
    """What the runtime's TensorFlow sees and does on one host.

    `gpus` is None where it does not load; `output` is its last word on that, or on GPUs.
    """

    gpus: int | None
    devices: tuple[Device, ...] = ()
    output: str = ""

    @property
    def slowest(self) -> Device:
        """The device that the others of this host wait for."""
        return max(self.devices, key=lambda device: device.seconds)


@dataclass(frozen=True)
class Reduction:
    """An all-reduce of `size` bytes over all ranks, and what pairs of hosts reached, in bytes/s."""

    ranks: int
    size: int
    seconds: float
    pairs: Mapping[tuple[str, str], float]

    @property
    def algorithm(self) -> float:
        """Bytes per second as the program sees them: size over time."""
        return self.size / self.seconds

    @property
    def bus(self) -> float:
        """Bytes per second that each rank sends: times 2(n-1)/n, of n ranks in a ring."""
        return self.algorithm * 2 * (self.ranks - 1) / self.ranks


# --- What needs no runtime -----------------------------------------------------------------


def gpu_cards(facts: HostFacts) -> int:
    """NVIDIA's cards on the PCI bus that a run would use; 0 also where the bus is not shown."""
    return len(facts.gpu.cards) if facts.gpus else len(gpus_of(facts))


def gpu_findings(name: str, facts: HostFacts) -> Iterator[Finding]:
    """The cards on the PCI bus against those that the driver shows."""
    there, shown = gpu_cards(facts), len(facts.gpus)
    if not there or there == shown:
        return
    output = f": {facts.gpu.smi.splitlines()[0]}" if facts.gpu.smi else ""
    what = f"{count(there, 'GPU')} on the PCI bus, {shown or 'none'} by nvidia-smi{output}"
    action = "restart the machine; if a GPU stays away, take another machine"
    if facts.gpu.driver is None:
        action = "fab bootstrap   # installs the driver; with --system where hosts were only named"
    yield Finding(name, what, action)


def error_findings(name: str, errors: Errors) -> Iterator[Finding]:
    """What the driver and the kernel's log say of the cards."""
    for memory in errors.memory:
        card, action = f"GPU {memory.bus}", RESET.format(bus=memory.bus)
        if memory.reset:
            yield Finding(name, f"{card}: the driver says that it requires a reset", action)
        if memory.uncorrected:
            what = f"{card}: {count(memory.uncorrected, 'memory error')} that ECC cannot correct"
            again = f"{action}; if they come again, take another machine"
            yield Finding(name, what, again)
        if memory.pending:
            yield Finding(name, f"{card}: bad memory waits to be taken out of use", action)
        if memory.failed:
            what = f"{card}: bad memory could not be taken out of use"
            yield Finding(name, what, "take another machine: this card is broken")
    for xid in errors.xids or ():
        meaning = xid.meaning
        times = f", {xid.times} times" if xid.times > 1 else ""
        what = f"GPU {xid.bus}: Xid {xid.number}{times}: {meaning.what}"
        yield Finding(name, what, meaning.todo.format(bus=xid.bus), counts=not meaning.harmless)
    if errors.xids is None:
        what = "the kernel's log cannot be read: Xid errors would not be seen"
        yield Finding(name, what, "let this user read it: adduser ... adm", counts=False)


def clock_findings(clocks: Mapping[str, ClockOffset]) -> Iterator[Finding]:
    """Clocks that are off. Where all are, and agree, it is ours."""
    off = {name: clock for name, clock in clocks.items() if clock.is_off}
    skews = [clock.skew for clock in clocks.values()]
    if len(clocks) > 1 and len(off) == len(clocks) and max(skews) - min(skews) < CLOCK_LIMIT:
        what = f"this machine's clock is {shown_skew(-median_low(skews))} against every host's"
        yield Finding(THIS_MACHINE, what, "set this machine's clock: timedatectl set-ntp true")
        return
    for name, clock in off.items():
        what = f"its clock is {shown_skew(clock.skew)} against ours, {CLOCK_LIMIT:g} s is allowed"
        yield Finding(name, what, "on the host, as root: timedatectl set-ntp true")


def capacity_findings(name: str, disk: int, memory: int, ranks: int) -> Iterator[Finding]:
    """Too little disk or memory for a run."""
    if disk < DISK_LIMIT:
        what = f"{size(disk)} free on the disk of its home, {size(DISK_LIMIT)} is the least"
        yield Finding(name, what, f"fab exec --hosts {name} --cmd 'du -xh ~ | sort -h | tail'")
    if memory < MEMORY_LIMIT * ranks:
        need = f"{size(MEMORY_LIMIT * ranks)} is the least for {count(ranks, 'rank')}"
        what = f"{size(memory)} of memory free, {need}"
        yield Finding(name, what, f"fab exec --hosts {name} --cmd 'ps aux --sort -rss | head'")


# --- What TensorFlow and Horovod say -------------------------------------------------------


def fallback_findings(name: str, facts: HostFacts, bench: TensorFlowReadings) -> Iterator[Finding]:
    """TensorFlow that does not load, or sees other GPUs than the driver: it would use the CPU."""
    if bench.gpus is None:
        what = f"the runtime's TensorFlow does not run: {bench.output}"
        yield Finding(name, what, "fab bootstrap", stops_links=True)
    elif bench.gpus < len(facts.gpus):
        sees = "no GPU: it would train on the CPU" if not bench.gpus else f"{bench.gpus} alone"
        what = f"{count(len(facts.gpus), 'GPU')} by nvidia-smi, TensorFlow sees {sees}"
        output = f" ({bench.output})" if bench.output else ""
        action = "fab plan   # which runtime and driver it has, and why"
        yield Finding(name, what + output, action, stops_links=True)


def speed_findings(
    tensorflow_readings: Mapping[str, TensorFlowReadings], machines: Mapping[str, str]
) -> Iterator[Finding]:
    """Devices that multiply wrong, and hosts that are far slower than the median. Hosts that share
    one machine took its time from each other: what they took says nothing of them."""
    for name, bench in tensorflow_readings.items():
        for device in bench.devices:
            if not device.right:
                what = f"{device.name}: a product of matrices came out wrong"
                yield Finding(name, what, "take another machine: this device is broken")
    done = {name: bench.slowest for name, bench in tensorflow_readings.items() if bench.devices}
    if len({machines[name] for name in done}) < 2:
        return
    usual = median_low([x.seconds for x in done.values()])
    for name, device in done.items():
        if device.seconds > SLOW * usual:
            what = f"{device.name}: {times(device.seconds, usual)} the time of the median host"
            yield Finding(name, what, "look who else uses it: fab exec --cmd 'uptime; nvidia-smi'")


def pair_findings(pairs: Mapping[tuple[str, str], float]) -> Iterator[Finding]:
    """Pairs that reach less than half of what the upper quarter of all pairs does."""
    if len(pairs) < 3:
        return
    good = sorted(pairs.values())[3 * len(pairs) // 4]
    for (one, other), rate in pairs.items():
        if rate * SLOW < good:
            what = f"{size(rate)}/s between them, good pairs reach {size(good)}/s"
            action = (
                "look at their network: the same zone, the same type of machine, no other traffic"
            )
            yield Finding(f"{one} and {other}", what, action)


def pairs_of(hosts: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs to measure: all, or each host with the next, so that the time stays bounded."""
    if len(hosts) < 3:
        return []
    if len(hosts) <= ALL_PAIRS_HOSTS:
        return list(combinations(hosts, 2))
    return [(host, hosts[(i + 1) % len(hosts)]) for i, host in enumerate(hosts)]


def times(value: float, usual: float) -> str:
    """How much of the usual a value is: `1.5 times`."""
    return f"{value / usual:.1f} times"


def shown_skew(seconds: float) -> str:
    """A difference of clocks: `0.4 ms ahead`, `12 s behind`."""
    word = "ahead" if seconds >= 0 else "behind"
    amount = abs(seconds)
    return f"{amount * 1000:.1f} ms {word}" if amount < 1 else f"{amount:,.1f} s {word}"
