"""Whether nobody has used a machine for some minutes. `pulumi up` gives this file to each cloud
machine beside deadline.sh, whose timer runs it twice a minute:

    python3 -I railhead-idle MINUTES     prints `stop` when the machine may power itself off

A machine is in use while a program of Railhead runs there (a run, an endpoint, a notebook, an
upload), somebody is logged in, packages are installed, or its CPUs or GPUs work. What cannot be
read counts as use, as does the time before the first check and between two checks that are far
apart. Standard library of Python 3.9 only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

LOAD = 0.05  # of all CPUs, or of one GPU
GAP = 120.0  # seconds between two checks; if more, what happened between them is unknown
MEMORY = Path("/run/railhead-idle.json")  # lost at a reboot
ANSWER = 20.0  # seconds for nvidia-smi, which never answers if the driver hangs
SMI = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")
# Of the command line: Railhead's programs and folders, packages, the first steps of a new machine,
# and a connection of somebody who is logged in; sshd's other processes have a word in brackets.
USES = {
    "Railhead": re.compile(r"(?<!/home/)railhead"),
    "packages": re.compile(
        r"^(\S*/)?(apt|apt-get|dpkg)\b|(^|\s)(\S*/)?cloud-init(\s|$)|unattended-upgrade(\s|$)"
    ),
    "a login": re.compile(
        r"^sshd(-session)?: [^\[]+$|^(\S*/)?ssm-session-worker\b|^(\S*/)?login\s"
    ),
}
MARK = b"RAILHEAD_RUN="  # in the environment of all processes of a run


@dataclass(frozen=True)
class Facts:
    """The result of one check. `up`: seconds since the boot, by a clock that nobody sets; `uses`:
    who uses the machine; `cpu`: the load since the previous check; `gpu`: the highest load of a
    GPU, None if it cannot be read."""

    up: float
    uses: tuple[str, ...] = ()
    cpu: float = 0.0
    gpu: float | None = 0.0


@dataclass(frozen=True)
class Seen:
    """What is kept between two checks: since when nobody uses the machine, when it was checked, and
    the ticks of its CPUs until then."""

    since: float
    looked: float
    busy: int = 0
    total: int = 0


def decide(facts: Facts, before: Seen | None, minutes: float) -> tuple[Seen, bool]:
    """Since when nobody uses the machine, and whether it powers itself off; never with 0 minutes.
    Pure."""
    in_use = bool(facts.uses) or facts.cpu >= LOAD or facts.gpu is None or facts.gpu >= LOAD
    if in_use or before is None or not 0 <= facts.up - before.looked <= GAP:
        return Seen(facts.up, facts.up), False
    idle = facts.up - before.since
    return Seen(before.since, facts.up), 0 < minutes * 60 <= idle


def main(minutes: float) -> None:
    """Check, decide, and store the check."""
    before, (busy, total) = remembered(), ticks()
    cpu = (busy - before.busy) / max(1, total - before.total) if before else 0.0
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    uses = tuple(sorted({*used_by(own_processes())}))
    seen, stops = decide(Facts(up, uses, cpu, 1.0 if uses else gpu_load()), before, minutes)
    part = MEMORY.with_suffix(".part")
    part.write_text(json.dumps({**asdict(seen), "busy": busy, "total": total, "uses": uses}))
    part.replace(MEMORY)
    if stops:
        print("stop")


def remembered() -> Seen | None:
    """What the previous check has stored; None if there was none."""
    try:
        kept = json.loads(MEMORY.read_text())
        times = float(kept["since"]), float(kept["looked"])
        return Seen(*times, int(kept["busy"]), int(kept["total"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ticks() -> tuple[int, int]:
    """The busy ticks of all CPUs since the boot, and all ticks."""
    numbers = [int(text) for text in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def used_by(besides: set[int]) -> Iterator[str]:
    """Who uses the machine, by its processes."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in besides:
            continue
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if MARK in (folder / "environ").read_bytes():
                yield "a run"
        except OSError:  # it has ended
            continue
        yield from (name for name, pattern in USES.items() if pattern.search(line.strip()))


def own_processes() -> set[int]:
    """This process and those that started it: the timer's."""
    own, pid = set[int](), os.getpid()
    while pid > 1:
        own.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return own


def gpu_load() -> float | None:
    """The highest load of a GPU; 0 without a driver, None if it does not answer or does not report
    it, as for a partitioned GPU."""
    try:
        done = subprocess.run(SMI, capture_output=True, text=True, timeout=ANSWER)
    except FileNotFoundError:
        return 0.0
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return 0.0
    try:
        return max(float(line) for line in done.stdout.split("\n") if line) / 100
    except ValueError:
        return None


if __name__ == "__main__":
    main(float(sys.argv[1]))
