"""Decides whether hosts are fit for a run: converts readings to findings with an action. Pure.

Ranks wait for each other, so a run is as fast as its slowest host. Therefore a host or a link that
is much slower than the others is a finding too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median_low

from railhead.documents.health import Device
from railhead.documents.lazy import dataclass

from ..console.text import count, size
from ..errors import Command, Hint
from ..facts.host import HostFacts
from ..facts.xid import RESET, Errors
from ..plan.runtimes import gpus_of

CLOCK_LIMIT = 1.0  # seconds: with a larger offset, records of two hosts are in the wrong order
DISK_LIMIT = 2_000_000_000  # bytes: the log of a rank takes up to 100 MB, the files of a model more
MEMORY_LIMIT = 1_000_000_000  # bytes for each rank: TensorFlow and Horovod alone took 0.45 GB
SLOW = 2.0  # factor: a larger ratio to the median is a finding
ALL_PAIRS_HOSTS = 8  # with more hosts, only each host and the next one are measured
THIS_MACHINE = "here"  # the host of a finding about the computer that runs the command


@dataclass(frozen=True)
class Finding:
    """A problem, its host, and what to do. `counts` False: a note; the hosts are still healthy.
    `stops_links`: an all-reduce would fail or hang."""

    host: str
    problem: str
    action: Hint | Command | str
    counts: bool = True
    stops_links: bool = False


@dataclass(frozen=True)
class ClockOffset:
    """A host's clock minus this computer's, in seconds, with the uncertainty of the measurement."""

    skew: float
    error: float

    @property
    def is_off(self) -> bool:
        """Whether the offset exceeds the limit even if the error is subtracted."""
        return abs(self.skew) - self.error > CLOCK_LIMIT


@dataclass(frozen=True)
class HostReadings:
    """The readings that need no runtime; `memory` in bytes; `errors` None: the host has no GPU."""

    clock: ClockOffset
    memory: int
    errors: Errors | None = None


@dataclass(frozen=True)
class TensorFlowReadings:
    """The GPUs and the speed of the runtime's TensorFlow on one host.

    `gpus` is None if TensorFlow does not load; `output` is its last message about this or the GPUs.
    """

    gpus: int | None
    devices: tuple[Device, ...] = ()
    output: str = ""

    @property
    def slowest(self) -> Device:
        """The slowest device of this host; the other devices wait for it."""
        return max(self.devices, key=lambda device: device.seconds)


@dataclass(frozen=True)
class Reduction:
    """An all-reduce of `size` bytes over all ranks; `pairs` in bytes/s of two hosts."""

    ranks: int
    size: int
    seconds: float
    pairs: Mapping[tuple[str, str], float]

    @property
    def algorithm(self) -> float:
        """Algorithm bandwidth in bytes per second: size over time."""
        return self.size / self.seconds

    @property
    def bus(self) -> float:
        """Bus bandwidth in bytes per second: in a ring of n ranks each sends 2(n-1)/n * size."""
        return self.algorithm * 2 * (self.ranks - 1) / self.ranks


# --- Checks without a runtime --------------------------------------------------------------


def gpu_cards(facts: HostFacts) -> int:
    """The number of NVIDIA cards on the PCI bus; 0 also if the bus is not visible."""
    return len(facts.gpu.cards) if facts.gpus else len(gpus_of(facts))


def gpu_findings(name: str, facts: HostFacts) -> Iterator[Finding]:
    """Compare the cards on the PCI bus with those that the driver shows."""
    cards, shown = gpu_cards(facts), len(facts.gpus)
    if not cards or cards == shown:
        return
    output = f": {facts.gpu.smi.splitlines()[0]}" if facts.gpu.smi else ""
    problem = f"{count(cards, 'GPU')} on the PCI bus, {shown or 'none'} by nvidia-smi{output}"
    action = Hint("restart the machine; if a GPU is still missing, use another machine")
    if facts.gpu.driver is None:
        action = Hint(
            Command("bootstrap"), "   # installs the driver; with --system on ad-hoc hosts"
        )
    yield Finding(name, problem, action)


def error_findings(name: str, errors: Errors) -> Iterator[Finding]:
    """Errors of the cards, from the driver and the kernel's log."""
    for memory in errors.memory:
        card, action = f"GPU {memory.bus}", RESET.format(bus=memory.bus)
        if memory.reset:
            yield Finding(name, f"{card}: the driver reports that it requires a reset", action)
        if memory.uncorrected:
            problem = f"{card}: {count(memory.uncorrected, 'memory error')} that ECC cannot correct"
            again = f"{action}; if they come back, use another machine"
            yield Finding(name, problem, again)
        if memory.pending:
            yield Finding(name, f"{card}: bad memory will be disabled at the next reset", action)
        if memory.failed:
            problem = f"{card}: bad memory could not be disabled"
            yield Finding(name, problem, "use another machine: this card is broken")
    for xid in errors.xids or ():
        meaning = xid.meaning
        times = f", {xid.times} times" if xid.times > 1 else ""
        problem = f"GPU {xid.bus}: Xid {xid.number}{times}: {meaning.problem}"
        yield Finding(name, problem, meaning.todo.format(bus=xid.bus), counts=not meaning.harmless)
    if errors.xids is None:
        problem = "the kernel's log cannot be read: Xid errors would not be seen"
        yield Finding(name, problem, "let this user read it: adduser ... adm", counts=False)


def clock_findings(clocks: Mapping[str, ClockOffset]) -> Iterator[Finding]:
    """Clocks beyond the limit. If all differ by the same offset, this computer's clock is wrong."""
    off = {name: clock for name, clock in clocks.items() if clock.is_off}
    skews = [clock.skew for clock in clocks.values()]
    if len(clocks) > 1 and len(off) == len(clocks) and max(skews) - min(skews) < CLOCK_LIMIT:
        skew = shown_skew(-median_low(skews))
        problem = f"this computer's clock is {skew}, compared with every host's"
        yield Finding(THIS_MACHINE, problem, "set this computer's clock: timedatectl set-ntp true")
        return
    for name, clock in off.items():
        skew = shown_skew(clock.skew)
        problem = (
            f"its clock is {skew}, compared with this computer's; {CLOCK_LIMIT:g} s is allowed"
        )
        yield Finding(name, problem, "on the host, as root: timedatectl set-ntp true")


def capacity_findings(name: str, disk: int, memory: int, ranks: int) -> Iterator[Finding]:
    """Too little free disk or memory (bytes) for a run with so many ranks on the host."""
    if disk < DISK_LIMIT:
        problem = (
            f"{size(disk)} free on the disk of its home, at least {size(DISK_LIMIT)} are needed"
        )
        yield Finding(name, problem, Command("exec", cmd="du -xh ~ | sort -h | tail"))
    if memory < MEMORY_LIMIT * ranks:
        need = f"at least {size(MEMORY_LIMIT * ranks)} are needed for {count(ranks, 'rank')}"
        problem = f"{size(memory)} of memory free, {need}"
        yield Finding(name, problem, Command("exec", cmd="ps aux --sort -rss | head"))


# --- Checks with TensorFlow and Horovod ----------------------------------------------------


def fallback_findings(
    name: str, facts: HostFacts, bench: TensorFlowReadings, framework: str = "TensorFlow"
) -> Iterator[Finding]:
    """The framework does not load, or sees fewer GPUs than the driver, so it would use the CPU."""
    if bench.gpus is None:
        problem = f"the runtime's {framework} does not run: {bench.output}"
        yield Finding(name, problem, Command("bootstrap"), stops_links=True)
    elif bench.gpus < len(facts.gpus):
        sees = "no GPU: it would train on the CPU" if not bench.gpus else f"only {bench.gpus}"
        problem = f"{count(len(facts.gpus), 'GPU')} by nvidia-smi, {framework} sees {sees}"
        output = f" ({bench.output})" if bench.output else ""
        action = Hint(Command("plan"), "   # which runtime and driver it has, and why")
        yield Finding(name, problem + output, action, stops_links=True)


def speed_findings(
    tensorflow_readings: Mapping[str, TensorFlowReadings], machines: Mapping[str, str]
) -> Iterator[Finding]:
    """Devices with a wrong result, and hosts that are much slower than the median. Speeds are not
    compared if all hosts share one machine: they slow each other down."""
    for name, bench in tensorflow_readings.items():
        for device in bench.devices:
            if not device.right:
                problem = f"{device.name}: a product of matrices was wrong"
                yield Finding(name, problem, "use another machine: this device is broken")
    slowest = {name: bench.slowest for name, bench in tensorflow_readings.items() if bench.devices}
    if len({machines[name] for name in slowest}) < 2:
        return
    usual = median_low([x.seconds for x in slowest.values()])
    for name, device in slowest.items():
        if device.seconds > SLOW * usual:
            problem = f"{device.name}: {times(device.seconds, usual)} the time of the median host"
            look = Hint("find out who else uses it: ", Command("exec", cmd="uptime; nvidia-smi"))
            yield Finding(name, problem, look)


def pair_findings(pairs: Mapping[tuple[str, str], float]) -> Iterator[Finding]:
    """Pairs that reach less than half the bandwidth of the upper quartile of all pairs."""
    if len(pairs) < 3:
        return
    good = sorted(pairs.values())[3 * len(pairs) // 4]
    for (first, second), rate in pairs.items():
        if rate * SLOW < good:
            problem = f"{size(rate)}/s between them, good pairs reach {size(good)}/s"
            action = "check their network: the same zone, the same machine type, no other traffic"
            yield Finding(f"{first} and {second}", problem, action)


def pairs_of(hosts: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs to measure: all, or for many hosts each host and the next, to limit the time."""
    if len(hosts) < 3:
        return []
    if len(hosts) <= ALL_PAIRS_HOSTS:
        return list(combinations(hosts, 2))
    return [(host, hosts[(i + 1) % len(hosts)]) for i, host in enumerate(hosts)]


def times(value: float, usual: float) -> str:
    """The ratio of a value to the usual one: `1.5 times`."""
    return f"{value / usual:.1f} times"


def shown_skew(seconds: float) -> str:
    """A clock offset as text: `0.4 ms ahead`, `12 s behind`."""
    direction = "ahead" if seconds >= 0 else "behind"
    amount = abs(seconds)
    return f"{amount * 1000:.1f} ms {direction}" if amount < 1 else f"{amount:,.1f} s {direction}"
