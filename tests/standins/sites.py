"""Each cloud that has machines, with two of them, as a test needs it: what may happen to them.

tests/bootstrap/clouds/test_contract.py holds every cloud of the registry to the same rules through
these. The cloud itself is opened as Railhead opens it, by the registry.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from places import CASES

from bootstrap.clouds import base
from bootstrap.clouds.local import cluster, processes
from bootstrap.clouds.machines import Place
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Host, Inventory

BUCKET = "railhead-b"
ID = "0a1b2c3d4e5f"
Patch = pytest.MonkeyPatch


class Site(ABC):
    """A cloud with two running machines, each with a deadline in an hour where the cloud has any.

    Attributes:
        changes: the requests so far that start, stop or terminate machines.
        account: what the cloud calls the owner of the machines.
        networks: from where SSH is allowed.
        place: where the machines are listed.
    """

    inventory: Inventory
    account: str
    place: Place
    networks: tuple[str, ...] = ("203.0.113.7/32",)

    def cloud(self, inventory: Inventory | None = None) -> base.Cloud:
        """The cloud of the machines, or of another inventory, by the registry."""
        return base.cloud_of(inventory or self.inventory)

    def states(self) -> list[str]:
        """The state of each machine, as the cloud reports it when all changes are complete."""
        self.settle()
        return [state.state for state in self.cloud().instance_states().values()]

    @property
    @abstractmethod
    def changes(self) -> list[str]: ...

    def settle(self) -> None:  # noqa: B027  most clouds here complete a change at once
        """Complete what the cloud has begun."""

    @abstractmethod
    def terminate(self, host: Host) -> None:
        """Terminate a machine, as somebody does in the cloud's console."""

    @abstractmethod
    def protect(self, host: Host) -> None:
        """Let the cloud refuse every change of a machine."""

    @abstractmethod
    def show_key(self, host: Host, key: str) -> None:
        """Let a machine have shown its host key to the cloud; others have not yet."""


class CloudSite(Site):
    """A cloud that bills: with deadlines, disks, a bucket, credentials and limited capacity."""

    sdk: str  # the module that its SDK needs
    no_capacity: str  # the error code where it has no machine

    @abstractmethod
    def fill(self, code: str) -> None:
        """Let the cloud refuse every start with this error code."""

    @abstractmethod
    def remove_deadline(self, host: Host) -> None:
        """Remove a machine's deadline, as somebody does in the cloud's console."""

    @abstractmethod
    def put(self, size: int) -> None:
        """Write an object of this size, once more, into the bucket of the inventory."""

    @abstractmethod
    def log_out(self) -> None:
        """Remove the credentials."""


class AwsSite(CloudSite):
    """EC2, EventBridge Scheduler and the account's bucket, of moto."""

    sdk, no_capacity = "boto3", "InsufficientInstanceCapacity"
    account = "account 123456789012"
    place = Place("aws", "us-east-1")

    def __init__(self, patch: Patch) -> None:
        import botocore.client
        from standins.aws import account

        self._patch, self._client, self._changes = patch, account.client, list[str]()
        self._protected: set[str] = set()
        self._keys: dict[str, str] = {}
        self._full = ""
        self._real = botocore.client.BaseClient._make_api_call
        group = self._security_group()
        tags = {"railhead:cluster": "aws-g4dn", "railhead:id": ID, "railhead:stack": "g4dn"}
        instances = account.run_instances(2, tags, SecurityGroupIds=[group])
        golden = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
        hosts = tuple(
            replace(host, id=instance["InstanceId"])
            for host, instance in zip(golden.hosts, instances, strict=True)
        )
        self.inventory = replace(
            golden, hosts=hosts, bucket=f"s3://{BUCKET}", deadlines=(), cluster_id=ID
        )
        for host in hosts:
            self._schedule(host)
        self._bucket()
        patch.setattr(
            "botocore.client.BaseClient._make_api_call",
            lambda client, *call: self._call(client, *call),
        )

    def _security_group(self) -> str:
        ec2 = self._client("ec2")
        group = str(ec2.create_security_group(GroupName="own", Description="of a test")["GroupId"])
        for port, network in ((22, self.networks[0]), (80, "0.0.0.0/0")):
            ec2.authorize_security_group_ingress(
                GroupId=group, IpProtocol="tcp", FromPort=port, ToPort=port, CidrIp=network
            )
        return group

    def _schedule(self, host: Host) -> None:
        ends = datetime.now(timezone.utc) + timedelta(hours=1)
        target = {
            "Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances",
            "RoleArn": "arn:aws:iam::123456789012:role/stop",
            "Input": json.dumps({"InstanceIds": [host.id]}),
        }
        self._client("scheduler").create_schedule(
            Name=self._schedule_name(host),
            ScheduleExpression=f"at({ends:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )

    def _schedule_name(self, host: Host) -> str:
        return f"railhead-{self.inventory.name}-{host.id}"

    def _bucket(self) -> None:
        s3 = self._client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})

    def _call(self, client: Any, operation: str, parameters: Any) -> Any:
        """In place of a call of botocore: what moto does not do."""
        ids = parameters.get("InstanceIds", ())
        if operation == "StartInstances" and self._full:
            raise self._error(operation, self._full)
        if operation in ("StopInstances", "TerminateInstances") and self._protected & {*ids}:
            raise self._error(operation, "IncorrectInstanceState")
        if operation == "GetConsoleOutput":
            return {"Output": self._keys.get(parameters["InstanceId"], "")}
        if operation in ("StartInstances", "StopInstances", "TerminateInstances"):
            self._changes.append(operation)
        return self._real(client, operation, parameters)

    @staticmethod
    def _error(operation: str, code: str) -> Exception:
        from botocore.exceptions import ClientError

        error: Exception = ClientError({"Error": {"Code": code, "Message": "refused"}}, operation)
        return error

    @property
    def changes(self) -> list[str]:
        return self._changes

    def terminate(self, host: Host) -> None:
        self._client("ec2").terminate_instances(InstanceIds=[host.id])

    def protect(self, host: Host) -> None:
        self._protected.add(host.id or "")

    def show_key(self, host: Host, key: str) -> None:
        begin, end = (f"-----{word} SSH HOST KEY KEYS-----" for word in ("BEGIN", "END"))
        self._keys[host.id or ""] = f"{begin}\n{key} root@host\n{end}\n"

    def fill(self, code: str) -> None:
        self._full = code

    def remove_deadline(self, host: Host) -> None:
        self._client("scheduler").delete_schedule(Name=self._schedule_name(host))

    def put(self, size: int) -> None:
        self._client("s3").put_object(Bucket=BUCKET, Key="runs/r/model", Body=bytes(size))

    def log_out(self) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self._patch.delenv(name)
        self._patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


class GcpSite(CloudSite):
    """Compute Engine and Cloud Storage, served on this machine."""

    sdk, no_capacity = "google.auth.exceptions", "ZONE_RESOURCE_POOL_EXHAUSTED"
    account = "project p-1"
    place = Place("gcp", "us-central1", "p-1")

    def __init__(self, patch: Patch) -> None:
        import requests
        from standins.gcp.compute import Compute
        from standins.gcp.storage import Store

        from bootstrap.clouds.gcp.client import GoogleClient

        self._patch, self._compute, self._store = patch, Compute(), Store({BUCKET: []})
        golden = from_document(json.loads((CASES / "documents/cluster-gcp.json").read_text()))
        path = str(golden.chief.id).replace("t4-1", "t4-2")
        second = replace(golden.chief, name="gcp-t4-2", id=path, address="192.0.2.7")
        self.inventory = replace(
            golden,
            hosts=(golden.chief, second),
            bucket=f"gs://{BUCKET}",
            region="us-central1",
            cluster_id=ID,
        )
        for number, host in enumerate(self.inventory.hosts):
            self._add(host, str(4711 + number))
        ssh = [{"IPProtocol": "tcp", "ports": ["22"]}]
        rule = {"direction": "INGRESS", "allowed": ssh, "network": NETWORK}
        rules = [
            rule | {"targetTags": ["railhead-c"], "sourceRanges": [*self.networks]},
            rule | {"network": f"{NETWORK}-other", "sourceRanges": ["0.0.0.0/0"]},
        ]
        project = str(self.inventory.chief.id).partition("/zones/")[0]
        for number, each in enumerate(rules):
            self._compute.add(f"{project}/global/firewalls/f-{number}", **each)
        self.servers = [self._compute.serve(), self._store.serve()]
        client = GoogleClient(
            requests.Session(), f"{self._store.base}/", compute=self._compute.base
        )
        for module in ("instances", "machines", "gcs"):
            patch.setattr(f"bootstrap.clouds.gcp.{module}.connect", lambda: client)

    def _add(self, host: Host, serial: str) -> None:
        path = str(host.id)
        interface = {"network": NETWORK, "networkIP": f"10.164.0.{serial[-1]}"}
        address = {"accessConfigs": [{"natIP": f"198.51.100.{serial[-1]}"}]}
        link = f"https://www.googleapis.com/compute/v1/{path.replace('/instances/', '/disks/')}"
        local_ssds = [{"type": "SCRATCH"}] if host == self.inventory.chief else []
        self._compute.add(
            path,
            id=serial,
            networkInterfaces=[interface | address],
            tags={"items": ["railhead-c"]},
            labels={"railhead-cluster": "t4", "railhead-id": ID, "railhead-stack": "g4dn"},
            disks=[{"source": link, "type": "PERSISTENT"}, *local_ssds],
        )

    @property
    def changes(self) -> list[str]:
        verbs = ("POST", "DELETE")
        return [request for request in self._compute.requests if request.startswith(verbs)]

    def settle(self) -> None:
        self._compute.settle()

    def terminate(self, host: Host) -> None:
        del self._compute.instances[host.id or ""]

    def protect(self, host: Host) -> None:
        self._compute.protected.add(host.id or "")

    def show_key(self, host: Host, key: str) -> None:
        kind, value = key.split()
        item = {"namespace": "hostkeys", "key": kind, "value": value}
        self._compute.attributes[host.id or ""] = [item]

    def fill(self, code: str) -> None:
        refusal = {"code": code, "message": "refused"}
        self._compute.errors = dict.fromkeys(self.inventory.names, refusal)
        names = [str(host.id).rpartition("/")[2] for host in self.inventory.hosts]
        self._compute.errors |= dict.fromkeys(names, refusal)

    def lose_zone(self, zone: str) -> None:
        """Google does not reach this zone, which has no machine."""
        self._compute.unreachables = (f"zones/{zone}",)

    def remove_deadline(self, host: Host) -> None:
        del self._compute.instances[host.id or ""]["scheduling"]["maxRunDuration"]

    def put(self, size: int) -> None:
        self._store.put(BUCKET, "runs/r/model", bytes(size))

    def log_out(self) -> None:
        from bootstrap.clouds.gcp import client

        folder = CASES  # without credentials
        self._patch.setenv("CLOUDSDK_CONFIG", str(folder))
        self._patch.setenv("NO_GCE_CHECK", "true")
        self._patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        self._patch.setattr("bootstrap.clouds.gcp.instances.connect", client.connect)


NETWORK = "https://www.googleapis.com/compute/v1/projects/p-1/global/networks/own"


class LocalSite(Site):
    """Two sshd of this machine."""

    account, networks = "this computer", ("127.0.0.0/8",)
    place = Place("local", None)

    def __init__(self, patch: Patch) -> None:
        self._patch, self._protected = patch, set[str]()
        self.inventory = cluster.start("site", 2)
        patch.setattr(processes, "_signal", self._signal(processes._signal))

    def _signal(self, real: Callable[..., None]) -> Callable[..., None]:
        def signal(folder: Any, sign: Any) -> None:
            if folder.name not in self._protected:
                real(folder, sign)

        return signal

    @property
    def changes(self) -> list[str]:
        return []

    def terminate(self, host: Host) -> None:
        cluster.remove("site", [host.name])

    def protect(self, host: Host) -> None:
        self._protected.add(host.name)

    def show_key(self, host: Host, key: str) -> None:
        """A local host's key is created here, and is in the inventory."""
        keys = {host.name: key}
        hosts = tuple(replace(each, host_key=keys.get(each.name)) for each in self.inventory.hosts)
        self.inventory = replace(self.inventory, hosts=hosts)


@contextmanager
def aws(patch: Patch) -> Iterator[Site]:
    """AWS, with credentials."""
    from standins.aws.account import account

    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        patch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        patch.setenv(name, "testing")
    with account():
        yield AwsSite(patch)


@contextmanager
def gcp(patch: Patch) -> Iterator[GcpSite]:
    """Google Cloud."""
    site = GcpSite(patch)
    yield site
    for server in site.servers:
        server.shutdown()
        server.server_close()


@contextmanager
def local(patch: Patch) -> Iterator[Site]:
    """This machine."""
    site = LocalSite(patch)
    yield site
    patch.undo()
    if "site" in local_state.clusters():
        cluster.stop("site")


SITES = {"aws": aws, "gcp": gcp, "local": local}
