"""SIGKILL of `pulumi` and of `fab` at random moments, and what a person types after it.

    .venv/bin/python -m campaigns.kills --cases 200 --seed 1
    .venv/bin/python -m campaigns.kills --cloud aws --seed 1 --first 17 --cases 18   # one again

Each case makes a stack (the real engine over moto, or over our Google Cloud), kills `pulumi` or
`fab` during an up, a resize, the replacement of spot machines or a destroy, and goes on as the
messages say. A case fails with an AssertionError: a machine without a deadline, a machine that
`fab status` does not name, a `pulumi up` that creates one a second time, a `fab up` that cannot go
on or does not end with the machines of the config, or what `fab teardown --destroy` leaves.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import aws, gcp
from engine.stack import Done, required
from standins.aws.cloud import Cloud

CLOUDS = ("aws", "gcp")
SCENARIOS = ("up", "resize", "spot", "destroy")
VICTIMS = ("pulumi", "pulumi under fab", "fab")
# Creates and deletes of a scenario, twice each.
MOST_CALLS = {
    "aws": {"up": 40, "resize": 4, "spot": 4, "destroy": 30},
    "gcp": {"up": 14, "resize": 2, "spot": 0, "destroy": 14},
}
STATUS_SECONDS = 300.0  # with others on the computer; a bound, not a measure
SLOW = 0.5  # seconds until a machine runs
Site = aws.OnAws | gcp.OnGcp  # a stack and its cloud


@dataclass
class Case:
    """One kill: during what, of whom, and when: at the n-th call of the provider, or a time."""

    number: int
    scenario: str
    victim: str
    at_call: int
    delay: float
    log: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        since = f"call {self.at_call}" if self.at_call >= 0 else "its start"
        when = f"{self.delay:.1f} s after {since}"
        return f"case {self.number}: {self.scenario}, SIGKILL of {self.victim}, {when}"


def choose(number: int, rng: random.Random, cloud: str = "aws") -> Case:
    """A case of each scenario and victim in turn; the moment is random."""
    scenario = SCENARIOS[number % len(SCENARIOS)]
    victim = VICTIMS[number // len(SCENARIOS) % len(VICTIMS)]
    if rng.random() < 0.2:  # at a time, also before the provider is called
        return Case(number, scenario, victim, -1, rng.uniform(1, 12))
    at_call = rng.randrange(0, MOST_CALLS[cloud][scenario] or 1)
    return Case(number, scenario, victim, at_call, rng.choice([0.0, 0.0, rng.uniform(0, 1)]))


def run(site: Site, case: Case) -> str:
    """Run a case to its end; what happened, in one line."""
    site.slow_down(SLOW)
    count = 1 if case.scenario in ("spot", "resize") else 2
    site.stack.config(count=count, spot=case.scenario == "spot")
    if case.scenario != "up":
        site.stack.up().ended(0)
    if case.scenario == "resize":
        site.stack.config(count=2)
    if case.scenario == "spot":
        site.take_away()
    killed = kill(site, case)
    killed += restore(site)
    check_named(site)
    site.stack.run("cancel", "--yes", *of(site))
    if case.scenario != "destroy":
        count = 1 if case.scenario == "spot" else 2
        killed += go_on(site, count, plain=case.number % 2 == 1)
        check_named(site)
    site.check_deadlines()
    receipt = site.stack.fab("teardown", "--destroy", "--yes", "--discard-results", *of(site))
    assert not site.existing(), f"machines are left:\n{receipt.text}"
    assert receipt.code == 0, receipt.text
    assert not (remaining := site.remains()), f"of the stack's id there are still {remaining}"
    return killed


def go_on(site: Site, count: int, *, plain: bool) -> str:
    """`fab up`, in half of the cases after a `pulumi up`, which either does that or is refused."""
    how = ""
    if plain:
        done = site.stack.up("--refresh")
        assert len(site.existing()) <= count, f"created twice: {site.existing()}:\n{done.text}"
        how = f"; pulumi up ended with {done.code}"
    again = site.stack.fab("up", "--yes", "--refresh", *of(site))
    assert "Traceback" not in again.text and again.code == 0, again.text
    assert len(site.existing()) == count, f"{site.existing()}:\n{again.text}"
    return f"{how}; fab up went on"


def of(site: Site) -> tuple[str, str]:
    """The option that names the stack."""
    return "--stack", site.stack.name


def kill(site: Site, case: Case) -> str:
    """Start the scenario's command and kill it at its moment; whether it had ended before."""
    process = subprocess_of(site, case)
    calls, due = 0, threading.Event()

    def watch(_: str) -> None:
        nonlocal calls
        calls += 1
        if calls > case.at_call:
            due.set()

    if case.at_call < 0:
        due.set()
    site.watch(watch)
    reader = threading.Thread(target=process.communicate, daemon=True)
    reader.start()
    try:
        end = time.monotonic() + 400
        while not due.wait(0.05) and process.poll() is None:
            assert time.monotonic() < end, f"{case} does not end"
        time.sleep(case.delay)
        if process.poll() is not None:
            return f"{case}: it had ended before"
        for pid in pids(process, case.victim):
            os.kill(pid, signal.SIGKILL)
        reader.join(120)
        return f"{case}: killed"
    finally:
        site.watch(lambda _: None)
        settle(site)


def kill_up(site: Site, moment: str) -> None:
    """Start `pulumi up` and kill it at a call of the provider, as in "after create TYPE", which
    leaves that resource in no state."""
    process = site.stack.start("pulumi", "up", "--yes", "--skip-preview", *of(site))

    def watch(called: str) -> None:
        if called == moment:
            site.stack.kill_between_writes(process.pid)

    site.watch(watch)
    process.communicate(timeout=200)
    site.watch(lambda _: None)


def restore(site: Site) -> str:
    """Make a damaged state readable, as the message says; what was done."""
    if readable(site):
        return ""
    shown = site.stack.fab("status", *of(site)).text
    name = f"{site.stack.name}.json.attrs"
    assert f"{name} && " in shown, shown
    (damaged,) = (site.stack.folder / "state").rglob(name)
    damaged.unlink()
    assert readable(site), f"nor can it be read then:\n{shown}\n{exported(site).text[:2000]}"
    return "; a damaged file beside the state was removed"


def readable(site: Site) -> bool:
    """Whether Pulumi can read its state."""
    return exported(site).code == 0


def exported(site: Site) -> Done:
    """`pulumi stack export`."""
    return site.stack.run("stack", "export", *of(site))


def subprocess_of(site: Site, case: Case) -> subprocess.Popen[str]:
    """The command of a scenario, as a person types it."""
    quiet = ("--non-interactive", "--color=never", "--yes", "--skip-preview", *of(site))
    if case.victim == "pulumi":
        refresh = ("--refresh",) if case.scenario == "spot" else ()
        verb = "destroy" if case.scenario == "destroy" else "up"
        return site.stack.start("pulumi", verb, *quiet, *refresh)
    if case.scenario == "destroy":
        return site.stack.start("fab", "teardown", "--destroy", "--yes", *of(site))
    refresh = ("--refresh",) if case.scenario == "spot" else ()
    return site.stack.start("fab", "up", "--yes", *refresh, *of(site))


def pids(process: subprocess.Popen[str], victim: str) -> list[int]:
    """The processes to kill: the command itself, or the `pulumi` that it started."""
    if victim != "pulumi under fab":
        return [process.pid]
    return [pid for pid in children(process.pid) if name_of(pid) == "pulumi"]


def children(parent: int) -> list[int]:
    """The pids of a process's children."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def name_of(pid: int) -> str:
    """The name of a process's program; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def settle(site: Site) -> None:
    """Wait until no process of the stack runs, then end those that remain of a killed engine."""
    end = time.monotonic() + 60
    stack = site.stack
    while any(name_of(pid) == "pulumi" for pid in stack.processes()) and time.monotonic() < end:
        time.sleep(0.1)
    stack.end_processes()
    time.sleep(SLOW + 0.2)  # what the provider has begun ends


def check_named(site: Site) -> None:
    """`fab status` names every machine that runs, before and after the question."""
    before = site.running()
    text = status(site)
    now = site.running()
    assert "Traceback" not in text, text
    for machine, name in before.items():
        assert machine not in now or f"[{name}" in text, f"{machine} is not named:\n{text}"
    shown = [line for line in text.splitlines() if line.startswith("[") and "] running" in line]
    assert len(shown) >= len(before.keys() & now.keys()), f"{before}:\n{text}"


def status(site: Site) -> str:
    """What `fab status` prints of the cloud. Then it is killed: it waits for the host keys of
    machines that do not exist here."""
    process = site.stack.start("fab", "status", *of(site))
    limit = threading.Timer(STATUS_SECONDS, process.kill)
    limit.start()
    assert process.stdout and process.stderr
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("reading the host keys of "):
            break
    process.kill()
    limit.cancel()
    return "".join(lines) + process.stderr.read()


def main(argv: list[str]) -> int:
    """Run the cases; 1 where some failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cloud", choices=(*CLOUDS, "all"), default="all")
    parser.add_argument("--cases", type=int, default=200, help="number after the last case")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, help="instead of --cases: how many, from the first")
    options: Any = parser.parse_args(argv)
    if options.count is not None:
        options.cases = options.first + options.count
    engine = required()
    shares = share_out(range(options.first, options.cases), options.cloud)
    failed = sum(run_cases(engine, share, options.seed, cloud) for cloud, share in shares.items())
    print(
        f"seed {options.seed}: {options.cases - options.first} cases, {failed} failed", flush=True
    )
    return min(failed, 1)


def share_out(numbers: range, cloud: str) -> dict[str, range]:
    """The numbers of each cloud's cases: `all` has as many of each, all from the first number."""
    clouds = CLOUDS if cloud == "all" else (cloud,)
    most, more = divmod(len(numbers), len(clouds))
    sizes = [most + (index < more) for index in range(len(clouds))]
    return {
        name: range(numbers.start, numbers.start + size)
        for name, size in zip(clouds, sizes, strict=True)
    }


def run_cases(engine: Path, numbers: range, seed: int, cloud: str = "aws") -> int:
    """Run these cases, each on a stack of its own; how many failed."""
    failed = 0
    print(f"{cloud}, seed {seed}", flush=True)
    with Cloud() if cloud == "aws" else nullcontext() as moto:
        for number in numbers:
            case = choose(number, random.Random(f"{seed}-{number}"), cloud)
            with tempfile.TemporaryDirectory() as folder, fresh(engine, Path(folder), moto) as site:
                site.stack.config(bucket=False)
                try:
                    print(run(site, case), flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{case}: FAILED: {error}", flush=True)
                    again = f"--cloud {cloud} --seed {seed} --first {number} --cases {number + 1}"
                    print(f"again: python -m campaigns.kills {again}", flush=True)
    return failed


def fresh(engine: Path, folder: Path, moto: Cloud | None) -> AbstractContextManager[Site]:
    """A stack on an empty cloud: AWS where there is a moto, else Google Cloud."""
    return aws.fresh(moto, engine, folder) if moto else gcp.fresh(engine, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
