"""A stack on AWS as far as a machine without an account can have one: the real engine, the
stand-in for Pulumi's provider, and moto, which then says what there is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from engine.stack import Stack
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from standins.aws.cloud import Cloud
from standins.aws.provider import Provider, serve

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4 ann@desk"
TAGS = {"railhead:cluster": "g4dn", "railhead:owner": "ann", "railhead:stack": "g4dn"}
INSTANCE = "aws:ec2/instance:Instance"


class OnAws:
    """One stack, its cloud, and the provider between them."""

    def __init__(
        self, engine: Path, folder: Path, cloud: Cloud, provider: Provider, port: int
    ) -> None:
        self.cloud, self.provider = cloud, provider
        key = folder / "key.pub"
        key.write_text(f"{PUBLIC}\n")
        self.stack = Stack(engine, folder / "project", "g4dn", providers={"aws": port})
        self.stack.config(cloud="aws", owner="ann", ssh_cidrs="203.0.113.7/32")
        self.stack.config(public_key_file=key)
        self.stack.env = {**cloud.env, "HOME": str(folder)}

    def log_in(self, account: str) -> None:
        """From now on the person and the provider have credentials of another account."""
        self.cloud.log_in(account)
        self.stack.env |= self.cloud.env

    def instances(self, *states: str) -> list[dict[str, Any]]:
        """What EC2 shows, by name; without states all that are not terminated."""
        wanted = states or ("pending", "running", "stopping", "stopped")
        requests = [{"Name": "instance-state-name", "Values": list(wanted)}]
        held = self.cloud.client("ec2").describe_instances(Filters=requests)["Reservations"]
        found = [one for each in held for one in each["Instances"]]
        return sorted(found, key=lambda one: tags(one)["Name"])

    def existing(self, *states: str) -> dict[str, str]:
        """The names of the instances by id."""
        return {one["InstanceId"]: tags(one)["Name"] for one in self.instances(*states)}

    def running(self) -> dict[str, str]:
        """As `existing`, of those that run."""
        return self.existing("running")

    def take_away(self) -> None:
        """End all instances, as AWS ends spot machines."""
        ec2 = self.cloud.client("ec2")
        ec2.terminate_instances(InstanceIds=list(self.existing()))

    def slow_down(self, seconds: float) -> None:
        """Each instance takes this long until the provider has seen it run."""
        self.provider.slow_instance = (0, seconds)

    def watch(self, see: Callable[[str], None]) -> None:
        """Let `see` see each create and delete of the provider."""
        self.provider.watch = see

    def check_deadlines(self) -> None:
        """Every machine has a deadline of its own."""
        check_deadlines(self)

    def remains(self) -> list[str]:
        """What a stack made and is still there, of all kinds but buckets."""
        ec2, iam = self.cloud.client("ec2"), self.cloud.client("iam")
        found = [one["VpcId"] for one in ec2.describe_vpcs()["Vpcs"] if not one["IsDefault"]]
        found += [one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]]
        found += [one["RoleName"] for one in iam.list_roles()["Roles"]]
        return [*found, *self.cloud.extra.groups, *(one["Name"] for one in self.schedules())]

    @property
    def id(self) -> str:
        """The id of its cluster, as Pulumi's state has it."""
        (kept,) = [one for one in self.stack.resources() if one["urn"].endswith("::cluster-id")]
        return str(kept["outputs"]["output"])

    @property
    def tags(self) -> dict[str, str]:
        """The tags of everything that it makes."""
        return {**TAGS, "railhead:id": self.id}

    def schedules(self) -> list[dict[str, Any]]:
        """What the Scheduler has, in the order of the instances' names."""
        scheduler = self.cloud.client("scheduler")
        names = [one["Name"] for one in scheduler.list_schedules()["Schedules"]]
        found = [scheduler.get_schedule(Name=name) for name in names]
        return sorted(found, key=lambda one: str(one["Description"]))


@contextmanager
def few_regions(names: Collection[str]) -> Iterator[None]:
    """moto has these regions alone: `fab leaks` asks each for some fifteen lists."""
    every = RegionsAndZonesBackend.regions
    RegionsAndZonesBackend.regions = [one for one in every if one.name in names]
    try:
        yield
    finally:
        RegionsAndZonesBackend.regions = every


@contextmanager
def fresh(cloud: Cloud, engine: Path, folder: Path) -> Iterator[OnAws]:
    """A stack on an empty AWS; the provider can refuse calls."""
    cloud.reset()
    with serve(cloud) as (provider, port):
        made = OnAws(engine, folder, cloud, provider, port)
        try:
            yield made
        finally:
            made.stack.end_processes()


def tags(one: dict[str, Any]) -> dict[str, str]:
    """Tags as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}


def check_deadlines(aws: OnAws) -> None:
    """Every machine has a schedule of its own in the future, or the timer in its user data."""
    now = datetime.now(timezone.utc)
    armed = set()
    for schedule in aws.schedules():
        text = schedule["ScheduleExpression"].removeprefix("at(").removesuffix(")")
        at = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
        (own,) = json.loads(schedule["Target"]["Input"])["InstanceIds"]
        armed |= {own} if at > now else set()
    for one in aws.instances():
        assert one["InstanceId"] in armed or has_timer(aws, one["InstanceId"]), one


def has_timer(aws: OnAws, instance: str) -> bool:
    """Whether the machine's user data installs its timer."""
    ec2 = aws.cloud.client("ec2")
    found = ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")
    return "/var/lib/railhead" in base64.b64decode(found["UserData"]["Value"]).decode()
