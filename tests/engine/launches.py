"""The scenarios of tests/launches with the real commands: Pulumi's engine and `fab`, over moto.

    .venv/bin/python -m tests.engine.launches --first 1 --count 10

After each event the machines of each person are where the model has them; at the end nothing runs,
and nothing of another owner was ended. Events that moto cannot do are left out, here and in the
model: time that passes, a cloud that lies.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.aws import INSTANCE, PUBLIC
from engine.kills import kill_up
from engine.stack import Stack, find
from launches.model import play
from launches.scenario import PEOPLE, REGIONS, STACK, Step, draw
from standins.aws.cloud import Cloud
from standins.aws.provider import Provider, serve

NOT_HERE = {"hours", "lying-stop", "expired-login", "throttled"}
SCHEDULE = "aws:scheduler/schedule:Schedule"
MOMENTS = {"unrecorded": f"after create {INSTANCE}", "recorded": f"after create {SCHEDULE}"}
CAPACITY = ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
ROUNDS = 3


class Desk:
    """A person with a backend, a stack and two homes."""

    def __init__(self, engine: Path, folder: Path, cloud: Cloud, name: str, port: int) -> None:
        self.name, self.cloud, self.folder = name, cloud, folder
        folder.mkdir()
        (folder / "key.pub").write_text(f"{PUBLIC}\n")
        self.stack = Stack(engine, folder / "project", STACK, providers={"aws": port})
        self.stack.env = {**cloud.env}
        self.region, self.cluster = REGIONS[0], STACK
        self.configure()

    def configure(self) -> None:
        """Write the stack's config."""
        self.stack.config(
            cloud="aws",
            owner=self.name,
            count=1,
            bucket=False,
            ssh_cidrs="203.0.113.7/32",
            public_key_file=self.folder / "key.pub",
            region=self.region,
            name=self.cluster,
        )

    def watch(self, see: Callable[[str], None]) -> None:
        """As kills.py wants it of a site."""
        self.provider.watch = see

    provider: Provider

    def do(self, step: Step) -> None:
        """One event."""
        home = self.folder / f"home-{step.laptop}"
        home.mkdir(exist_ok=True)
        self.stack.env["HOME"] = str(home)
        match step.verb, step.value:
            case "up", _:
                self.fab("up", "--yes")
            case "killed-up", "early":
                process = self.stack.start("pulumi", "up", "--yes", "--stack", STACK)
                process.kill()
                process.communicate()
            case "killed-up", moment:
                kill_up(self, MOMENTS[moment])  # type: ignore[arg-type]
                self.stack.end_processes()
                self.stack.run("cancel", "--yes", "--stack", STACK)
            case "stock-out", _:
                self.provider.faults.clear()
                self.provider.fail(INSTANCE, self.provider.created.get(INSTANCE, 0) + 1, *CAPACITY)
                self.fab("up", "--yes")
                self.provider.faults.clear()
            case "region", region:
                self.region = region
                self.configure()
            case "rename", name:
                self.cluster = name
                self.configure()
            case "lose-state", _:
                self.stack.run("stack", "rm", "--force", "--yes", "--stack", STACK)
                shutil.rmtree(self.stack.folder / "state", ignore_errors=True)
                (self.stack.folder / "state").mkdir()
                self.stack.run("stack", "init", STACK).ended(0)
                self.configure()
            case "stop", _:
                self.fab("stop", "--yes")
            case "destroy", _:
                self.fab("teardown", "--destroy", "--yes", "--discard-results")

    def fab(self, *args: str) -> str:
        """A command about the stack; none of them ends in a traceback."""
        text = self.stack.fab(*args, "--stack", STACK).text
        assert "Traceback" not in text, text
        return text


def existing(cloud: Cloud) -> dict[str, tuple[str, ...]]:
    """The region of each machine of an owner."""
    found: dict[str, list[str]] = {name: [] for name in PEOPLE}
    for region in REGIONS:
        states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]}]
        held = cloud.client("ec2", region).describe_instances(Filters=states)["Reservations"]
        for one in (one for each in held for one in each["Instances"]):
            tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
            found[tags["railhead:owner"]].append(region)
    return {name: tuple(sorted(regions)) for name, regions in found.items()}


@contextmanager
def desks(engine: Path, folder: Path, cloud: Cloud) -> Iterator[dict[str, Desk]]:
    """Both people, on an empty cloud."""
    cloud.reset()
    with serve(cloud) as (provider, port):
        people = {name: Desk(engine, folder / name, cloud, name, port) for name in PEOPLE}
        for person in people.values():
            person.provider = provider
        try:
            yield people
        finally:
            for person in people.values():
                person.stack.end_processes()


def check(engine: Path, folder: Path, cloud: Cloud, steps: tuple[Step, ...]) -> None:
    """Run a scenario with the real commands, and compare it with the model."""
    expected = play(steps).regions
    with desks(engine, folder, cloud) as people:
        for step, wanted in zip(steps, expected, strict=True):
            people[step.person].do(step)
            now = existing(cloud)
            assert now == wanted, f"after {step}: {now}, in the model {wanted}"
        for _ in range(ROUNDS):
            for person in people.values():
                before = existing(cloud)
                person.fab("teardown", "--destroy", "--yes", "--discard-results")
                person.stack.fab("leaks", "--end", "--yes", "--owner", person.name)
                after = existing(cloud)
                others = [name for name in PEOPLE if name != person.name]
                assert all(before[name] == after[name] for name in others), person.name
        assert not any(existing(cloud).values()), f"left: {existing(cloud)}"


def steps_of(seed: int) -> tuple[Step, ...]:
    """The events of a seed that moto can do."""
    return tuple(step for step in draw(seed) if step.verb not in NOT_HERE)


def main(argv: list[str]) -> int:
    """Run the seeds; 1 where one failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--count", type=int, default=1)
    chosen = options.parse_args(argv)
    from bootstrap.inventory import local_state

    engine = find(local_state.cache("engine").parents[1])
    assert engine, "there is no Pulumi CLI; to build it: make test-engine"
    failed = 0
    with Cloud() as cloud:
        for seed in range(chosen.first, chosen.first + chosen.count):
            steps = steps_of(seed)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(engine, Path(folder), cloud, steps)
                    print(f"seed {seed}: as in the model", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"seed {seed}: {'; '.join(map(str, steps))}: {error}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
