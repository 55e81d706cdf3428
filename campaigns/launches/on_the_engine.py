"""The scenarios with the real commands: Pulumi's engine and `fab`, over moto or the stand-in for
Google Cloud.

    .venv/bin/python -m campaigns.launches.on_the_engine --cloud gcp --first 1 --count 10

After each event the machines of each person are where the model has them; at the end nothing runs,
and nothing of another owner was ended. Events that the stand-ins cannot do are left out, here and
in the model: time that passes, a cloud that lies.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import aws, gcp
from engine.stack import Stack, required
from standins.aws.cloud import Cloud
from standins.aws.provider import Provider, serve
from standins.gcp.cloud import INSTANCE as GOOGLE_INSTANCE
from time_budgets import cpu_seconds

from campaigns.kills import kill_up
from campaigns.launches.model import play
from campaigns.launches.people import Person, PersonOnGoogle
from campaigns.launches.scenario import PEOPLE, REGIONS, STACK, Step, draw

NOT_HERE = {"hours", "lying-stop", "expired-login", "throttled"}
NOT_HERE |= {"extend", "no-right", "results"}
ONLY_AWS = {"spot", "type"}  # the model has its machine types
CLOUDS = ("aws", "gcp")
NO_CAPACITY = "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available"
DENIED = "403: Constraint constraints/compute.vmExternalIpAccess violated for the project"
ROUNDS = 3


@dataclass
class OnMoto:
    """AWS. Regions have the names of the scenarios."""

    cloud: Cloud
    provider: Provider
    port: int  # of the provider
    name: str = "aws"  # in a stack's config
    person: type[Person] = Person  # the model of a person there
    machine: str = aws.INSTANCE  # the type in Pulumi's state

    @property
    def env(self) -> Mapping[str, str]:
        """The variables by which `fab` asks this cloud."""
        return {**self.cloud.env, "NO_GCE_CHECK": "true"}

    def config(self, region: str) -> Mapping[str, object]:
        """The keys of a stack's config that the cloud needs."""
        return {"region": region, "zones": f"{region}a"}

    def watch(self, see: Callable[[str], None]) -> None:
        """Let `see` see each create of the provider."""
        self.provider.watch = see

    def machines(self) -> Iterator[tuple[str, str]]:
        """The owner and the region of each machine that exists."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]}]
        for region in REGIONS:
            listed = self.cloud.client("ec2", region).describe_instances(Filters=states)
            for reservation in listed["Reservations"]:
                for instance in reservation["Instances"]:
                    yield aws.tags(instance)["railhead:owner"], region

    @contextmanager
    def without_capacity(self, cluster: str) -> Iterator[None]:
        """Refuse the machines of a cluster while the block runs."""
        number = self.provider.created.get(self.machine, 0) + 1
        self.provider.fail(self.machine, number, "InsufficientInstanceCapacity", "none is free")
        yield
        self.provider.faults.clear()

    @contextmanager
    def denying(self, cluster: str) -> Iterator[None]:
        """A policy of the account forbids the machines of a cluster while the block runs."""
        self.cloud.extra.demanded = {"cost-centre"}
        yield
        self.cloud.extra.demanded = set()


@dataclass
class OnGoogle:
    """Google Cloud, with the same."""

    cloud: gcp.SharedCloud
    port: int
    env: Mapping[str, str]
    name: str = "gcp"
    person: type[Person] = PersonOnGoogle
    machine: str = GOOGLE_INSTANCE

    def config(self, region: str) -> Mapping[str, object]:
        here = gcp.REGIONS[REGIONS.index(region)]
        return {"project": gcp.PROJECT, "region": here, "zones": f"{here}-a"}

    def watch(self, see: Callable[[str], None]) -> None:
        self.cloud.watch = see

    def machines(self) -> Iterator[tuple[str, str]]:
        for path, instance in self.cloud.compute.instances.items():
            region = path.split("/")[3].rpartition("-")[0]
            yield instance["labels"]["railhead-owner"], REGIONS[gcp.REGIONS.index(region)]

    @contextmanager
    def without_capacity(self, cluster: str) -> Iterator[None]:
        self.cloud.refuse[f"{cluster}-1"] = NO_CAPACITY
        yield
        self.cloud.refuse.clear()

    @contextmanager
    def denying(self, cluster: str) -> Iterator[None]:
        self.cloud.refuse[f"{cluster}-1"] = DENIED
        yield
        self.cloud.refuse.clear()


Site = OnMoto | OnGoogle


class Desk:
    """A person with a backend, a stack and two homes."""

    def __init__(self, engine: Path, folder: Path, site: Site, name: str) -> None:
        self.name, self.site, self.folder = name, site, folder
        folder.mkdir()
        (folder / "key.pub").write_text(f"{aws.PUBLIC}\n")
        self.stack = Stack(engine, folder / "project", STACK, providers={site.name: site.port})
        self.stack.env = {**site.env}
        self.region, self.cluster = REGIONS[0], STACK
        self.machines: dict[str, object] = {}  # keys of the config for another kind of them
        self.configure()

    def configure(self) -> None:
        """Write the stack's config."""
        self.stack.config(
            cloud=self.site.name,
            owner=self.name,
            count=1,
            bucket=False,
            ssh_cidrs="203.0.113.7/32",
            public_key_file=self.folder / "key.pub",
            name=self.cluster,
            **self.site.config(self.region),
            **self.machines,
        )

    def watch(self, see: Callable[[str], None]) -> None:
        """As kills.py wants it of a site."""
        self.site.watch(see)

    def do(self, step: Step) -> None:
        """One event."""
        home = self.folder / f"home-{step.laptop}"
        home.mkdir(exist_ok=True)
        self.stack.env["HOME"] = str(home)
        match step.verb, step.value:
            case "up", _:
                self.fab("up", "--yes")
            case "killed-up", moment:
                self.killed_up(moment)
            case "stock-out", _:
                with self.site.without_capacity(self.cluster):
                    self.fab("up", "--yes")
            case "denied-up", _:
                with self.site.denying(self.cluster):
                    self.fab("up", "--yes")
            case "spot", spot:
                self.machines["spot"] = spot
                self.configure()
            case "type", kind:
                self.machines["machine_type"] = kind
                self.configure()
            case "region", region:
                self.region = region
                self.configure()
            case "rename", name:
                self.cluster = name
                self.configure()
            case "lose-state", _:
                self.stack.lose_state()
                self.configure()
            case "stop", _:
                self.fab("stop", "--yes")
            case "destroy", _:
                self.fab("teardown", "--destroy", "--yes", "--discard-results")

    def killed_up(self, moment: str) -> None:
        """Kill `pulumi up`: at its start, or when a machine exists that Pulumi has not recorded, or
        has."""
        if moment == "early":
            process = self.stack.start("pulumi", "up", "--yes", "--stack", STACK)
            process.kill()
            process.communicate()
            return
        if moment == "unrecorded":
            kill_up(self, f"after create {self.site.machine}")  # type: ignore[arg-type]
        else:
            self.kill_when_recorded()
        self.stack.end_processes()
        self.stack.run("cancel", "--yes", "--stack", STACK)

    def kill_when_recorded(self) -> None:
        """Kill `pulumi up` when its state has a machine, if it has not ended by then."""
        process = self.stack.start("pulumi", "up", "--yes", "--skip-preview", "--stack", STACK)
        while process.poll() is None and not self.has_machine():
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            self.stack.kill_between_writes(process.pid)
        process.communicate(timeout=200)

    def has_machine(self) -> bool:
        """Whether Pulumi's state has a machine."""
        with contextlib.suppress(ValueError):  # it is being written
            resources: list[dict[str, Any]] = self.stack.resources()
            return any(r["type"] == self.site.machine and r.get("id") for r in resources)
        return False

    def end_all(self) -> None:
        """What a person types until nothing is left."""
        self.fab("teardown", "--destroy", "--yes", "--discard-results")
        self.stack.fab("leaks", "--end", "--yes", "--owner", self.name)

    def fab(self, *args: str) -> None:
        """A command about the stack; none of them ends in a traceback."""
        text = self.stack.fab(*args, "--stack", STACK).text
        assert "Traceback" not in text, text


def existing(site: Site) -> dict[str, tuple[str, ...]]:
    """The region of each machine, by owner."""
    machines = [*site.machines()]
    return {name: tuple(sorted(r for owner, r in machines if owner == name)) for name in PEOPLE}


def check(engine: Path, folder: Path, site: Site, steps: tuple[Step, ...]) -> None:
    """Run a scenario with the real commands, and compare it with the model."""
    expected = play(steps, site.person).regions
    people = {name: Desk(engine, folder / name, site, name) for name in PEOPLE}
    try:
        for step, regions in zip(steps, expected, strict=True):
            people[step.person].do(step)
            now = existing(site)
            assert now == regions, f"after {step}: {now}, in the model {regions}"
        check_end(site, people)
    finally:
        for person in people.values():
            person.stack.end_processes()


def check_end(site: Site, people: Mapping[str, Desk]) -> None:
    """Everybody types what the messages name: nothing is left, and nobody ends what others have."""
    for _ in range(ROUNDS):
        for person in people.values():
            before = existing(site)
            person.end_all()
            after = existing(site)
            others = [name for name in PEOPLE if name != person.name]
            assert all(before[name] == after[name] for name in others), person.name
        if not any(existing(site).values()):
            return
    raise AssertionError(f"left: {existing(site)}")


def steps_of(seed: int, cloud: str) -> tuple[Step, ...]:
    """The events of a seed that the stand-ins of a cloud can do."""
    without = NOT_HERE if cloud == "aws" else NOT_HERE | ONLY_AWS
    return tuple(step for step in draw(seed) if step.verb not in without)


@contextmanager
def serving(cloud: str) -> Iterator[Callable[[Path], AbstractContextManager[Site]]]:
    """What makes an empty cloud for each scenario, with its files in a folder."""
    if cloud == "gcp":
        yield on_google
        return
    with aws.few_regions(REGIONS), Cloud() as moto:

        @contextmanager
        def on_moto(_: Path) -> Iterator[Site]:
            moto.reset()
            with serve(moto) as (provider, port):
                yield OnMoto(moto, provider, port)

        yield on_moto


@contextmanager
def on_google(folder: Path) -> Iterator[Site]:
    """An empty Google Cloud."""
    with gcp.cloud() as (cloud, port):
        yield OnGoogle(cloud, port, gcp.environment(cloud, folder))


def main(argv: list[str]) -> int:
    """Run the seeds; 1 where one failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cloud", choices=CLOUDS, help="default: odd seeds on gcp")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--count", type=int, default=1)
    chosen = options.parse_args(argv)
    seeds = range(chosen.first, chosen.first + chosen.count)
    failed = 0
    for cloud in (chosen.cloud,) if chosen.cloud else CLOUDS:
        share = [seed for seed in seeds if chosen.cloud or CLOUDS[seed % 2] == cloud]
        failed += run(cloud, share) if share else 0
    return min(failed, 1)


def run(cloud: str, seeds: list[int]) -> int:
    """Run these seeds on a cloud; how many failed."""
    engine, failed = required(), 0
    with serving(cloud) as fresh:
        for seed in seeds:
            steps, began = steps_of(seed, cloud), cpu_seconds()
            folder = Path(tempfile.mkdtemp())
            try:
                with fresh(folder) as site:
                    check(engine, folder, site, steps)
                outcome = "as in the model"
            except AssertionError as error:
                failed += 1
                outcome = f"{'; '.join(map(str, steps))}: {error}"
            finally:
                shutil.rmtree(folder)
            print(f"{cloud}, seed {seed}, {cpu_seconds() - began:.0f} CPU s: {outcome}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
