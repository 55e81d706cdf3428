"""SIGKILL of `pulumi` and of `fab` at random moments, and what a person types after it.

    .venv/bin/python -m tests.engine.kills --cases 200 --seed 1

Each case makes a stack on AWS (the real engine over moto), kills `pulumi` or `fab` during an up, a
resize, the replacement of spot machines or a destroy, and goes on as the messages say. A case fails
with an AssertionError: a machine without a deadline, a machine that `fab status` does not name, or
one that `fab teardown --destroy` leaves.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.aws import OnAws, check_deadlines, tags
from engine.stack import find
from standins.aws.cloud import Cloud
from standins.aws.provider import serve

STACK = ("--stack", "g4dn")
SCENARIOS = ("up", "resize", "spot", "destroy")
VICTIMS = ("pulumi", "pulumi under fab", "fab")
MOST_CALLS = {"up": 40, "resize": 4, "spot": 4, "destroy": 30}  # creates and deletes, twice each
STATUS_SECONDS = 90.0


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


def choose(number: int, rng: random.Random) -> Case:
    """A case of each scenario and victim in turn; the moment is random."""
    scenario = SCENARIOS[number % len(SCENARIOS)]
    victim = VICTIMS[number // len(SCENARIOS) % len(VICTIMS)]
    if rng.random() < 0.2:  # at a time, also before the provider is called
        return Case(number, scenario, victim, -1, rng.uniform(1, 12))
    at_call = rng.randrange(0, MOST_CALLS[scenario])
    return Case(number, scenario, victim, at_call, rng.choice([0.0, 0.0, rng.uniform(0, 1)]))


def run(aws: OnAws, case: Case) -> str:
    """Run a case to its end; what happened, in one line."""
    aws.provider.slow_instance = (0, 0.5)
    count = 1 if case.scenario in ("spot", "resize") else 2
    aws.stack.config(count=count, spot=case.scenario == "spot")
    if case.scenario != "up":
        aws.stack.up().ended(0)
    if case.scenario == "resize":
        aws.stack.config(count=2)
    if case.scenario == "spot":
        aws.cloud.client("ec2").terminate_instances(
            InstanceIds=[one["InstanceId"] for one in aws.instances()]
        )
    killed = kill(aws, case)
    killed += restore(aws)
    check_named(aws)
    aws.stack.run("cancel", "--yes", *STACK)
    if case.scenario != "destroy":
        again = aws.stack.fab("up", "--yes", "--refresh", *STACK)
        assert again.code in (0, 1) and "Traceback" not in again.text, again.text
        killed += f"; fab up ended with {again.code}"
        if again.code:
            killed += f":\n{again.text}"
        check_named(aws)
    check_deadlines(aws)
    receipt = aws.stack.fab("teardown", "--destroy", "--yes", "--discard-results", *STACK)
    assert not aws.instances(), f"machines are left:\n{receipt.text}"
    assert receipt.code == 0, receipt.text
    return killed


def kill(aws: OnAws, case: Case) -> str:
    """Start the scenario's command and kill it at its moment; whether it had ended before."""
    process = subprocess_of(aws, case)
    calls, due = 0, threading.Event()

    def watch(_: str) -> None:
        nonlocal calls
        calls += 1
        if calls > case.at_call:
            due.set()

    if case.at_call < 0:
        due.set()
    aws.provider.watch = watch
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
        aws.provider.watch = lambda _: None
        settle(aws)


def restore(aws: OnAws) -> str:
    """Restore a state that was half written, as the message says; what was done."""
    if readable(aws):
        return ""
    said = aws.stack.fab("status", *STACK).text
    assert "restore g4dn.json from g4dn.json.bak" in said, said
    (backup,) = (aws.stack.folder / "state").rglob("g4dn.json.bak")
    shutil.copy(backup, backup.with_suffix(""))
    assert readable(aws), "the backup cannot be read either"
    return "; the state was restored from its backup"


def readable(aws: OnAws) -> bool:
    """Whether Pulumi can read its state."""
    return aws.stack.run("stack", "export", *STACK).code == 0


def subprocess_of(aws: OnAws, case: Case) -> subprocess.Popen[str]:
    """The command of a scenario, as a person types it."""
    quiet = ("--non-interactive", "--color=never", "--yes", "--skip-preview", *STACK)
    if case.victim == "pulumi":
        refresh = ("--refresh",) if case.scenario == "spot" else ()
        verb = "destroy" if case.scenario == "destroy" else "up"
        return aws.stack.start("pulumi", verb, *quiet, *refresh)
    if case.scenario == "destroy":
        return aws.stack.start("fab", "teardown", "--destroy", "--yes", *STACK)
    refresh = ("--refresh",) if case.scenario == "spot" else ()
    return aws.stack.start("fab", "up", "--yes", *refresh, *STACK)


def pids(process: subprocess.Popen[str], victim: str) -> list[int]:
    """The processes to kill: the command itself, or the `pulumi` that it started."""
    if victim != "pulumi under fab":
        return [process.pid]
    return [pid for pid in children(process.pid) if name_of(pid) == "pulumi"]


def children(parent: int) -> list[int]:
    """The pids of a process's children."""
    found = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in found.read_text().split()] if found.exists() else []


def name_of(pid: int) -> str:
    """The name of a process's program; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def settle(aws: OnAws) -> None:
    """Wait until no process of the stack runs, then end those that remain of a killed engine."""
    end = time.monotonic() + 60
    while any(name_of(pid) == "pulumi" for pid in of_stack(aws)) and time.monotonic() < end:
        time.sleep(0.1)
    for pid in of_stack(aws):
        os.kill(pid, signal.SIGKILL)
    time.sleep(aws.provider.slow_instance[1] + 0.2)  # what the provider has begun ends


def of_stack(aws: OnAws) -> list[int]:
    """The processes that have this stack's state in their environment."""
    mark = f"PULUMI_BACKEND_URL=file://{aws.stack.folder / 'state'}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def check_named(aws: OnAws) -> None:
    """`fab status` names every machine that runs, before and after it is asked."""
    before = {one["InstanceId"]: tags(one)["Name"] for one in aws.instances("running")}
    text = status(aws)
    now = {one["InstanceId"] for one in aws.instances("running")}
    assert "Traceback" not in text, text
    for own, name in before.items():
        assert own not in now or f"[{name}" in text, f"{own} is not named:\n{text}"
    shown = [line for line in text.splitlines() if line.startswith("[") and "] running" in line]
    assert len(shown) >= len(before.keys() & now), f"{before}:\n{text}"


def status(aws: OnAws) -> str:
    """What `fab status` prints of the cloud. Then it is ended: it goes on to machines that do not
    exist here, and would wait for their host keys."""
    process = aws.stack.start("fab", "status", *STACK)
    lines: list[str] = []
    last = [time.monotonic()]

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            last[0] = time.monotonic()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    end = time.monotonic() + STATUS_SECONDS
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
        complete = any(line.startswith("[") for line in lines)
        if complete and time.monotonic() - last[0] > 5:
            break
    process.kill()
    thread.join(10)
    assert process.stderr
    return "".join(lines) + process.stderr.read()


def main(argv: list[str]) -> int:
    """Run the cases; the number of those that failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200)
    options.add_argument("--seed", type=int, default=random.randrange(10**6))
    options.add_argument("--first", type=int, default=0)
    given: Any = options.parse_args(argv)
    from bootstrap.inventory import local_state

    engine = find(local_state.cache("engine").parents[1])
    assert engine, "there is no Pulumi CLI; to build it: make test-engine"
    failed = run_cases(engine, range(given.first, given.cases), given.seed)
    print(f"seed {given.seed}: {given.cases - given.first} cases, {failed} failed", flush=True)
    return min(failed, 1)


def run_cases(engine: Path, numbers: range, seed: int) -> int:
    """Run these cases, each on a stack of its own; how many failed."""
    failed = 0
    print(f"seed {seed}", flush=True)
    with Cloud() as cloud:
        for number in numbers:
            case = choose(number, random.Random(f"{seed}-{number}"))
            cloud.reset()
            with tempfile.TemporaryDirectory() as folder, serve(cloud) as (provider, port):
                aws = OnAws(engine, Path(folder), cloud, provider, port)
                aws.stack.config(bucket=False)
                try:
                    print(run(aws, case), flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{case}: FAILED: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
