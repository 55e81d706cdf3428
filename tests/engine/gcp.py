"""A stack on Google Cloud: the real engine, the stand-in for Pulumi's provider, and Compute's REST
API, which `fab` calls, over the same machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from engine.stack import Stack
from standins.gcp.cloud import INSTANCE, Cloud, bundled_disks
from standins.gcp.discovery import Request
from standins.gcp.lists import Lists
from standins.gcp.plugin import serving
from standins.gcp.server import Answer

from bootstrap.clouds.gcp import rights

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4 ann@desk"
PROJECT = "p-12345"
REGIONS = ("us-central1", "us-east1")


class EndingCompute(Lists):
    """Lists in which a machine that stops has stopped when it is looked at next."""

    def answer(self, request: Request) -> Answer:
        """As Lists."""
        assert request.method in rights.CALLS or request.method.lower().endswith("list"), (
            request.method
        )
        for machine in self.instances.values():
            if machine["status"] == "STOPPING" and request.method.endswith((".get", "List")):
                machine["status"] = "TERMINATED"
        return super().answer(request)


class SharedCloud(Cloud):
    """The provider's cloud, whose machines are in Compute too."""

    compute: EndingCompute

    def share(self, compute: EndingCompute) -> SharedCloud:
        """Put each machine into Compute; one that is deleted there is gone here."""
        self.compute = compute
        compute.ended = lambda path: self.things.pop(path, None)  # type: ignore[assignment]
        return self

    def create(self, kind: str, inputs: Mapping[str, Any], where: str) -> str:
        """As Cloud; a machine runs in Compute as soon as the call was accepted."""
        path = super().create(kind, inputs, where)
        if kind == INSTANCE:
            made = self.things[path].request.body
            self.compute.add(
                path,
                labels=made["labels"],
                machineType=made["machineType"],
                scheduling=made["scheduling"],
                metadata=made["metadata"],
                networkInterfaces=[_interface(made["name"])],
                disks=made["disks"] + bundled_disks(made["machineType"]),
            )
        return path

    def delete(self, path: str, inputs: Mapping[str, Any]) -> None:
        """As Cloud; a machine that is gone already is no error, as for the provider."""
        if path in self.things:
            super().delete(path, inputs)
        self.compute.instances.pop(path, None)


def _interface(name: str) -> dict[str, Any]:
    """The network card of a machine, with addresses that no other has."""
    number = name.rpartition("-")[2]
    public = {"natIP": f"198.51.100.{number}"}
    return {"networkIP": f"10.164.0.{number}", "accessConfigs": [public]}


class OnGcp:
    """One stack and its cloud."""

    def __init__(self, engine: Path, folder: Path, cloud: SharedCloud, port: int) -> None:
        self.cloud = cloud
        key = folder / "key.pub"
        key.write_text(f"{PUBLIC}\n")
        self.stack = Stack(engine, folder / "project", "t4", providers={"gcp": port})
        self.stack.config(cloud="gcp", project=PROJECT, owner="ann", public_key_file=key)
        self.stack.config(ssh_cidrs="203.0.113.7/32", bucket=False)
        self.stack.env = {"HOME": str(folder), **environment(cloud, folder)}

    def existing(self) -> dict[str, str]:
        """The names of the machines by id."""
        return {path: path.rpartition("/")[2] for path in self.cloud.compute.instances}

    def running(self) -> dict[str, str]:
        """As `existing`, of those that run."""
        states = self.cloud.compute.instances
        return {p: name for p, name in self.existing().items() if states[p]["status"] == "RUNNING"}

    def take_away(self) -> None:
        """Stop all machines, as Google stops spot machines."""
        for machine in self.cloud.compute.instances.values():
            machine["status"] = "TERMINATED"

    def slow_down(self, seconds: float) -> None:
        """Each machine takes this long until the provider has seen it run."""
        self.cloud.slow = seconds

    def watch(self, see: Callable[[str], None]) -> None:
        """Let `see` see each create and delete of the provider."""
        self.cloud.watch = see

    def check_deadlines(self) -> None:
        """Every machine has Compute's own deadline, and the timer in its startup script."""
        for machine in self.cloud.compute.instances.values():
            scheduling = machine["scheduling"]
            assert int(scheduling["maxRunDuration"]["seconds"]) > 0, machine
            assert scheduling["instanceTerminationAction"] == "STOP", machine
            assert "/var/lib/railhead" in str(machine["metadata"]), machine

    def remains(self) -> list[str]:
        """Nothing: networks and accounts of a killed `up` may stay, as the page says."""
        return []

    def instances(self) -> list[str]:
        """The names of the machines that exist."""
        return sorted(path.rpartition("/")[2] for path in self.cloud.compute.instances)


def environment(cloud: SharedCloud, folder: Path) -> dict[str, str]:
    """The variables by which `fab` asks this cloud; the key of its account is in the folder."""
    (folder / "account.json").write_text(json.dumps(account(cloud.compute.address)))
    return {
        "NO_PROXY": "127.0.0.1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "account.json"),
        **cloud.compute.environment,
    }


@contextmanager
def cloud() -> Iterator[tuple[SharedCloud, int]]:
    """An empty Google Cloud, whose quotas are enough for 8 machines, and the port of its
    provider."""
    compute = EndingCompute(projects=[PROJECT])
    in_each = [row for region in REGIONS for row in rows(8, region)]
    quotas = {
        "GPUS-ALL-REGIONS-per-project": rows(8),
        "NVIDIA-T4-GPUS-per-project-region": in_each,
        "PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region": in_each,
    }
    made = SharedCloud(quotas=quotas).share(compute)
    with compute.served(), serving(made) as port:
        yield made, port


@contextmanager
def fresh(engine: Path, folder: Path) -> Iterator[OnGcp]:
    """A stack on an empty Google Cloud."""
    with cloud() as (made, port):
        site = OnGcp(engine, folder, made, port)
        try:
            yield site
        finally:
            site.stack.end_processes()


def rows(value: int, region: str | None = None) -> list[dict[str, Any]]:
    """The rows of a quota, as Cloud Quotas has them."""
    dimensions = {"region": region} if region else {}
    details = [{"value": str(value)}]
    places = [region or "global"]
    return [{"dimensions": dimensions, "applicableLocations": places, "details": details}]


def account(base: str) -> dict[str, str]:
    """The key file of a service account whose tokens come from Compute's stand-in."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return {
        "type": "service_account",
        "client_email": f"me@{PROJECT}.iam.gserviceaccount.com",
        "token_uri": f"{base}/token",
        "private_key": key.private_bytes(serialization.Encoding.PEM, form, plain).decode(),
    }
