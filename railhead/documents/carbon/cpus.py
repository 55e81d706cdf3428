"""Watts of one vCPU when idle and at full load, by microarchitecture, and of memory. Pure.

The rows are those of Cloud Carbon Footprint (github.com/cloud-carbon-footprint, Apache-2.0),
derived from SPECpower. Standard library only, Python 3.10.
"""

from __future__ import annotations

from railhead.documents.lazy import dataclass

LICENCE = "Apache-2.0"
NEWEST = "Cloud Carbon Footprint, read 2026-04"
PACKAGE = "@cloud-carbon-footprint/aws 0.15.0, read 2026-11-27"


@dataclass(frozen=True)
class Cpu:
    """A microarchitecture. `numbers`: family, model, and the first and the last stepping, of
    /proc/cpuinfo; `idle` and `full` are watts of one vCPU."""

    name: str
    numbers: tuple[int, int, int, int]
    idle: float
    full: float
    source: str


ANY = 99  # more than any stepping
CPUS = (
    Cpu("Haswell", (6, 63, 0, ANY), 1.0, 4.74, PACKAGE),
    Cpu("Broadwell", (6, 79, 0, ANY), 0.71, 3.69, NEWEST),
    Cpu("Skylake", (6, 85, 0, 4), 0.65, 4.26, PACKAGE),
    Cpu("Cascade Lake", (6, 85, 5, 7), 0.69, 4.06, NEWEST),
    Cpu("Sapphire Rapids", (6, 143, 0, ANY), 1.04, 4.06, NEWEST),
    Cpu("EPYC 2nd generation", (23, 49, 0, ANY), 0.47, 1.69, NEWEST),
    Cpu("EPYC 3rd generation", (25, 1, 0, ANY), 0.46, 1.96, NEWEST),
)
AVERAGE = Cpu("average", (0, 0, 0, 0), 0.74, 3.5, PACKAGE)  # of a CPU that has no row
MEMORY_WATTS = 0.392  # per GiB, NEWEST


def cpu_of(family: int, model: int, stepping: int) -> Cpu:
    """The row of a CPU by its numbers; AVERAGE if there is none."""
    for cpu in CPUS:
        first, last = cpu.numbers[2:]
        if cpu.numbers[:2] == (family, model) and first <= stepping <= last:
            return cpu
    return AVERAGE
