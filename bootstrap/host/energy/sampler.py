"""A process beside the first rank of a host that measures the energy of the whole machine.

A broken driver may never answer, so this is a separate process that nobody waits for, without the
rank's output. It shares a page of memory with the rank's helper, which sends the page's text to the
chief.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import time

from . import nvml
from .meter import Meter, Sample

PERIOD = 1.0  # seconds between two samples
LAST = 2.0  # seconds that the last sample may take
HALF = mmap.PAGESIZE // 2


class Page:
    """The newest text of the sampler. Texts are written to two places in turn, so that a reader
    sees a complete one."""

    def __init__(self) -> None:
        self.memory, self.turn = mmap.mmap(-1, mmap.PAGESIZE), 0

    def write(self, text: bytes) -> None:
        """Replace the text, of less than half a page."""
        self.turn = 1 - self.turn
        start = self.turn * HALF + 1
        self.memory[start : start + HALF - 1] = text.ljust(HALF - 1)
        self.memory[0] = self.turn

    def read(self) -> bytes:
        """The newest text; b"" before the first."""
        start = self.memory[0] * HALF + 1
        return self.memory[start : start + HALF - 1].strip(b" \0")


class Sampler:
    """The process that samples, until `end`, or until this process ends."""

    def __init__(self) -> None:
        self.page = Page()
        source, self.sink = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.closerange(0, source)
                os.closerange(source + 1, 1 << 16)
                sample_until_closed(source, self.page)
            finally:
                os._exit(0)
        os.close(source)

    def record(self) -> bytes:
        """The newest measurement as a record; b"" if there is none."""
        text = self.page.read()
        return b"@railhead " + text + b"\n" if text else b""

    def end(self) -> bytes:
        """The last measurement."""
        os.close(self.sink)
        until = time.monotonic() + LAST
        with contextlib.suppress(OSError):
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
                time.sleep(0.01)
            os.kill(self.pid, signal.SIGKILL)
        return self.record()


def sample_until_closed(source: int, page: Page) -> None:
    """Sample every PERIOD until the other end of a pipe is closed, then once more."""
    gpus, machine, since = nvml.Gpus(), machine_facts(), time.time()
    meter, cards = Meter(sample(gpus)), nvml.cards()
    closed = False
    while not closed:
        closed = bool(select.select([source], [], [], PERIOD)[0])
        meter.add(sample(gpus))
        measured = {"kind": "energy", **machine, "since": since, **measured_by(meter, cards)}
        page.write(json.dumps(measured).encode())


def measured_by(meter: Meter, cards: int) -> dict[str, float | None]:
    """The changing part of the record. If the library does not know all `cards`, the energy of the
    GPUs is unknown."""
    is_whole = len(meter.gpus) >= cards
    return {
        "seconds": round(meter.seconds, 2),
        "load": round(meter.load, 4),
        "gpus": max(cards, len(meter.gpus)),
        "gpu_counter": meter.counted if is_whole else None,
        "gpu_power": meter.integral if is_whole else None,
    }


def sample(gpus: nvml.Gpus) -> Sample:
    """A sample of the GPUs and the CPUs."""
    with open("/proc/stat") as file:
        ticks = [int(number) for number in file.readline().split()[1:9]]
    total = sum(ticks)
    waiting = ticks[3] + ticks[4]  # idle and iowait
    powers, counters = gpus.milliwatts(), gpus.millijoules()
    return Sample(time.monotonic(), counters, powers, total - waiting, total)


def machine_facts() -> dict[str, str | int | float | list[int]]:
    """The constant part of the record: vCPUs, memory, the CPU's model numbers, the boot."""
    with open("/proc/cpuinfo") as file:
        words = [line.partition(":")[::2] for line in file]
    about = {name.strip(): value.strip() for name, value in reversed(words)}
    numbers = [about.get(name, "") for name in ("cpu family", "model", "stepping")]
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return {
        "boot": boot,
        "cpu": [int(number) if number.isdecimal() else 0 for number in numbers],
        "vcpus": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }
