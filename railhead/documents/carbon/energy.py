"""The formula: from what the hosts of a run measured to kWh and gCO2e. Pure.

kWh = (energy of the GPUs + (vCPUs x (idle + load x (full - idle)) + memory) x hours) x PUE, and
gCO2e = kWh x the intensity of the grid. Standard library only, Python 3.10.
"""

from __future__ import annotations

from collections.abc import Iterable

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass, replace

METHOD = "railhead 1"  # another number whenever a coefficient or the formula changes
DIFFER = 0.2  # of the counter; beyond it the integral of power counts
JOULES = 3.6e6  # in a kWh
MOST = 10**15  # kWh and seconds of a run, far above what MOST_MEASURED hosts add up to
MOST_SECONDS, MOST_GIB, MOST_JOULES = 10**8, 10**5, 10**12  # at most, of one measurement
MOST_MEASURED = 1000  # measurements of a run; hosts begin one in each attempt
LEFT_OUT = "left out: the making of the machines, disks, network, the time before and after ranks"


@dataclass(frozen=True)
class HostEnergy:
    """What one host measured, for the whole machine, while its ranks ran.

    Attributes:
        boot: the id of the machine's boot; two hosts of one computer share it.
        since: when the measurement began, seconds since 1970; `seconds`: how long it took.
        cpu: family, model and stepping; zeros if they are not known.
        load: the part of the time in which the vCPUs were busy.
        gpu_counter: joules by NVML's counter of each GPU; None if one has none.
        gpu_power: joules, the integral of the power of each GPU; None if one has none.
    """

    host: str
    boot: str
    since: float = key(at_least=0, at_most=MOST)
    seconds: float = key(at_least=0, at_most=MOST_SECONDS)
    cpu: tuple[int, int, int] = key()
    vcpus: int = key(at_least=1, at_most=100_000)
    load: float = key(at_least=0, at_most=1)
    memory_gib: float = key(at_least=0, at_most=MOST_GIB)
    gpus: int = key(at_least=0, at_most=1000)
    gpu_counter: float | None = key(at_least=0, at_most=MOST_JOULES)
    gpu_power: float | None = key(at_least=0, at_most=MOST_JOULES)

    @property
    def differs(self) -> bool:
        """Whether the counter and the integral differ by more than DIFFER."""
        if self.gpu_counter is None or self.gpu_power is None:
            return False
        return abs(self.gpu_counter - self.gpu_power) > DIFFER * self.gpu_counter

    @property
    def gpu_joules(self) -> float | None:
        """The energy of the GPUs; None if they have neither a counter nor a power."""
        if not self.gpus:
            return 0.0
        return self.gpu_power if self.gpu_counter is None or self.differs else self.gpu_counter

    @property
    def other_joules(self) -> float:
        """The energy of CPUs and memory by the coefficients."""
        from railhead.documents.carbon.cpus import MEMORY_WATTS, cpu_of  # not for all importers

        cpu = cpu_of(*self.cpu)
        watts = self.vcpus * (cpu.idle + self.load * (cpu.full - cpu.idle))
        return (watts + MEMORY_WATTS * self.memory_gib) * self.seconds

    @property
    def note(self) -> str:
        """What a reader has to know about this measurement; "" for nothing."""
        from railhead.documents.carbon.cpus import AVERAGE, cpu_of

        if self.gpu_joules is None:
            return f"the energy of the GPUs of {self.host} is not known and left out: no NVML"
        if self.differs:
            return (
                f"GPUs of {self.host}: {self.gpu_counter:.0f} J by the counter,"
                f" {self.gpu_power:.0f} J by the integral of power, which counts"
            )
        if cpu_of(*self.cpu) is AVERAGE:
            return f"the CPU of {self.host} has no coefficients: those of an average one"
        return ""


@dataclass(frozen=True)
class Grid:
    """The electricity of a place: gCO2e per kWh of its grid in a year, and the PUE of its
    cloud."""

    g_per_kwh: float = key(at_least=0, at_most=10_000)
    pue: float = key(at_least=1, at_most=10)
    place: str = key()
    year: int = key(at_least=2000, at_most=9999)
    source: str = key()


@dataclass(frozen=True)
class Carbon:
    """The carbon of a run. `gpu_kwh` is measured, `other_kwh` (CPUs and memory) estimated; both
    include the PUE, which is 1 without a `grid`. `seconds`: measured, the sum of all `machines`."""

    method: str
    gpu_kwh: float = key(at_least=0, at_most=MOST)
    other_kwh: float = key(at_least=0, at_most=MOST)
    seconds: float = key(at_least=0, at_most=MOST)
    machines: int = key(at_least=1, at_most=100_000)
    grid: Grid | None = key(None)
    notes: tuple[str, ...] = key(())

    @property
    def kwh(self) -> float:
        """Both parts."""
        return self.gpu_kwh + self.other_kwh

    def grams(self, kwh: float) -> float | None:
        """gCO2e of an energy; None if the grid is not known."""
        return None if self.grid is None else kwh * self.grid.g_per_kwh

    @property
    def total(self) -> str:
        """For a table: 430 gCO2e; 0.2 kWh if the grid is not known."""
        grams = self.grams(self.kwh)
        return energy_text(self.kwh) if grams is None else f"{two_digits(grams)} gCO2e"

    def of(self, seconds: float) -> Carbon:
        """The carbon of a part of the run, if all machines work as in the whole run."""
        share = seconds * self.machines / self.seconds if self.seconds else 0.0
        return replace(
            self,
            gpu_kwh=self.gpu_kwh * share,
            other_kwh=self.other_kwh * share,
            seconds=seconds * self.machines,
        )

    @property
    def text(self) -> str:
        """A line for people: 430 gCO2e, measured (GPUs) 350 g, estimated (CPUs, memory) 80 g; ...

        Each number has two digits: sources for one place differ by a quarter.
        """
        if self.grid is None:
            unit, per = unit_of(self.kwh)
            end = "the carbon of this grid is not known"
        else:
            unit, per = "gCO2e", self.grid.g_per_kwh
            end = (
                f"{energy_text(self.kwh)} with PUE {self.grid.pue:g};"
                f" {per:g} g/kWh ({self.grid.source} {self.grid.year}, {self.grid.place})"
            )
        total, measured, estimated = (
            two_digits(kwh * per) for kwh in (self.kwh, self.gpu_kwh, self.other_kwh)
        )
        return (
            f"{total} {unit}: measured {measured} (GPUs), estimated {estimated}"
            f" (CPUs, memory); {end}; method {self.method}"
        )


def unit_of(kwh: float) -> tuple[str, float]:
    """The unit in which an energy is shown, and how many are a kWh: Wh for a short run."""
    return ("Wh", 1000.0) if 0 < kwh < 0.01 else ("kWh", 1.0)


def energy_text(kwh: float) -> str:
    """1.2 kWh, 0.031 kWh, 4.3 Wh."""
    unit, per = unit_of(kwh)
    return f"{two_digits(kwh * per)} {unit}"


def two_digits(value: float) -> str:
    """A number with two digits: 0.0043, 1.2, 350, 12,000."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.10f}".rstrip("0").rstrip(".")


def carbon_of(measured: Iterable[HostEnergy], grid: Grid | None) -> Carbon | None:
    """The carbon of all measurements of a run; None without any. If several hosts are one computer,
    each of them measured all of it: only the longest measurement counts."""
    hosts = _one_per_machine(measured)
    if not hosts:
        return None
    pue = grid.pue if grid else 1.0
    gpu = sum(host.gpu_joules or 0.0 for host in hosts)
    other = sum(host.other_joules for host in hosts)
    return Carbon(
        METHOD,
        gpu_kwh=float(f"{gpu / JOULES * pue:.6g}"),
        other_kwh=float(f"{other / JOULES * pue:.6g}"),
        seconds=round(sum(host.seconds for host in hosts), 1),
        machines=_machines(hosts),
        grid=grid,
        notes=(*dict.fromkeys(host.note for host in hosts if host.note), LEFT_OUT),
    )


def _machines(measured: Iterable[HostEnergy]) -> int:
    """How many machines these are: hosts of one boot are one, and so are the boots of a host."""
    machines: list[set[tuple[str, str]]] = []
    for measurement in measured:
        names = {("host", measurement.host), ("boot", measurement.boot)}
        same = [machine for machine in machines if machine & names]
        machines = [machine for machine in machines if machine not in same]
        machines.append(names.union(*same))
    return len(machines)


def _one_per_machine(measured: Iterable[HostEnergy]) -> list[HostEnergy]:
    """The measurements, without shorter ones of other hosts on the same machine at the same
    time."""
    kept: list[HostEnergy] = []
    for measurement in sorted(measured, key=lambda measurement: -measurement.seconds):
        if not any(_is_same_time(measurement, other) for other in kept):
            kept.append(measurement)
    return kept


def _is_same_time(measurement: HostEnergy, other: HostEnergy) -> bool:
    until = min(measurement.since + measurement.seconds, other.since + other.seconds)
    overlap = until - max(measurement.since, other.since)
    return measurement.boot == other.boot and measurement.host != other.host and overlap > 0
