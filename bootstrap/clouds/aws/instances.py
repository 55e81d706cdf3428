"""EC2 instances: their states, start, stop, deadline, costs and host keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.uri import bucket_uri
from railhead.money.host import DiskSpec

from ...errors import Command, Hint, UsageError
from ...inventory import local_state
from ...inventory.files import atomic_write
from ...inventory.hosts import Host, Inventory
from .. import costs as cloud_costs
from ..base import (
    STOPPED,
    Cost,
    Deadline,
    InstanceState,
    Refused,
    StockOut,
    start_later,
    through_outages,
    unless_refused,
    utc_now,
)
from . import scheduler
from .client import AwsClient, connect, items
from .ec2 import Instance, Rule, Volume, account, reservations, seconds_of
from .s3 import S3

EC2 = "EC2 DescribeInstances"
SPOT = "one-time spot: EC2 can terminate it, not stop it"

_KEYS = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL
)
_KEY = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp\d+|ssh-rsa) (AAAA[A-Za-z0-9+/]+={0,2})")


class Aws:
    """The EC2 instances of one inventory."""

    def __init__(self, inventory: Inventory, client: AwsClient | None = None) -> None:
        self.inventory = inventory
        self._names = {_id(host): host.name for host in inventory.hosts}
        self._client = client or connect(inventory.region)

    def instance_states(self) -> dict[str, InstanceState]:
        """Each host's state from DescribeInstances; see `_missing_state` for hosts without one."""
        instances, now = self._instances(), utc_now()
        return {
            h.name: _instance_state(instances[_id(h)], h, now)
            if _id(h) in instances
            else self._missing_state(now)
            for h in self.inventory.hosts
        }

    def start(self) -> None:
        """Start every instance that is stopped. Refused: EC2 has no capacity in the zone now, or
        refuses for another reason."""
        ids = [i for i, instance in self._instances().items() if instance.state == "stopped"]
        if not ids:
            return
        try:
            self._client("ec2", "start_instances", InstanceIds=ids)
        except Refused as refused:
            if refused.error_code in COMMON_FACTS["aws"].no_capacity:
                raise self._stock_out(refused) from None
            raise

    @through_outages()
    def stop(self) -> None:
        """Stop every instance that runs or starts. UsageError: they are one-time spot instances,
        which cannot be stopped."""
        running = self._running()
        spot = [i for i, instance in running.items() if instance.is_spot]
        self._request_all("stop_instances", sorted(running.keys() - set(spot)))
        if spot:
            raise UsageError(
                f"{', '.join(spot)}: {SPOT}",
                hint=Hint(
                    Command("stop", **self.inventory.target),
                    "   # terminates them, with their disks",
                ),
            )

    @through_outages()
    def terminate(self) -> None:
        """Terminate every instance that exists; EC2 deletes their disks."""
        self._request_all("terminate_instances", sorted(self._existing()))

    def _request_all(self, operation: str, ids: Sequence[str]) -> None:
        """Send one request for all. EC2 refuses all of it if one instance has only begun to start,
        or is protected: then send one for each, so that the others do not keep running. Refused:
        the first refusal, after the last request."""
        if not ids:
            return
        try:
            self._client("ec2", operation, InstanceIds=list(ids))
        except Refused:
            failures = [self._refusal(operation, instance) for instance in ids]
            if failure := next(filter(None, failures), None):
                raise failure from None

    def _refusal(self, operation: str, instance: str) -> Refused | None:
        try:
            self._client("ec2", operation, InstanceIds=[instance])
        except Refused as refused:
            return refused
        return None

    def cannot_stop(self) -> list[str]:
        """The names of one-time spot instances that run or start."""
        spot = {i for i, instance in self._running().items() if instance.is_spot}
        return [name for i, name in self._names.items() if i in spot]

    def _running(self) -> dict[str, Instance]:
        active = ("running", "starting")
        return {
            i: instance for i, instance in self._instances().items() if instance.state in active
        }

    def _existing(self) -> dict[str, Instance]:
        return {
            i: instance for i, instance in self._instances().items() if instance.state != "gone"
        }

    def deadlines(self) -> dict[str, Deadline]:
        """The schedule of each instance that exists, as EventBridge Scheduler has it now."""
        instances = self._existing()
        hosts = [host for host in self.inventory.hosts if _id(host) in instances]

        def read(host: Host) -> Deadline:
            return scheduler.read(
                self._client,
                self._schedule(host),
                _id(host),
                instances,
                region=self.inventory.region or "",
                cluster_id=self.inventory.cluster_id,
            )

        return {host.name: read(host) for host in hosts}

    def set_deadline(self, hours: float) -> None:
        """Move the schedules to this many hours from now; see `scheduler.set_deadline`."""
        ids = self._existing().keys()
        schedules = {self._schedule(h) for h in self.inventory.hosts if _id(h) in ids}
        scheduler.set_deadline(self._client, schedules, hours)

    def costs(self) -> list[Cost]:
        """The disks, and the bucket's content."""
        region, bucket = self.inventory.region, self.inventory.bucket
        disks = list(self._disks())
        if not bucket:
            return disks
        store = S3(self._client, bucket_uri(bucket, error=UsageError).bucket)
        return [*disks, *cloud_costs.bucket(store, region, "aws")]

    def _disks(self) -> Iterator[Cost]:
        filters = [{"Name": "attachment.instance-id", "Values": list(self._names)}]
        named = ("ec2", "describe_volumes", "Volumes")
        for disk in items(Volume, self._client, *named, Filters=filters):
            held_by = ", ".join(self._names[instance] for instance in disk.Attachments)
            spec = DiskSpec(disk.Size, disk.Throughput, disk.Iops)
            kind, region = disk.VolumeType, self.inventory.region
            usd = cloud_costs.disk_per_day(spec, "aws", kind, region)
            yield cloud_costs.disk(f"disk {disk.VolumeId} of {held_by}, {disk.Size} GB", usd)

    def account(self) -> str:
        """The account of the current credentials."""
        return account(self._client)

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that cloud-init printed on each instance's console at its first boot."""
        all_keys = {h.name: keys_on_console(self._console(_id(h))) for h in self.inventory.hosts}
        return {name: keys for name, keys in all_keys.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks in the rules of the chief's security groups."""
        chief = self._instances().get(_id(self.inventory.chief))
        groups = list(chief.SecurityGroups) if chief else []
        filters = [{"Name": "group-id", "Values": groups}]
        named = ("ec2", "describe_security_group_rules", "SecurityGroupRules")
        rules = items(Rule, self._client, *named, Filters=filters)
        return networks_of(rules, self.inventory.chief.port or 22)

    def _schedule(self, host: Host) -> str:
        """The name of a host's schedule: from the document, otherwise the name that a stack
        gives."""
        names = (d.id for d in self.inventory.deadlines if d.host == host.name)
        return next(names, None) or scheduler.name_of(self.inventory.name, _id(host))

    def _instances(self) -> dict[str, Instance]:
        """Our instances, by id; records the account that owns them."""
        # By filter: with InstanceIds, EC2 returns an error when one of them is gone.
        shown = list(reservations(self._client, instance_id=self._names))
        for reservation in shown:
            if reservation.OwnerId:
                atomic_write(self._owner_file, f"account {reservation.OwnerId}\n")
        return {i.InstanceId: i for reservation in shown for i in reservation.Instances}

    @property
    def _owner_file(self) -> Path:
        return local_state.cluster_folder(self.inventory.name) / "account"

    def _missing_state(self, now: str) -> InstanceState:
        """The state of an instance that EC2 does not show: "gone" only for the account that had
        it, because EC2 does not show instances of other accounts either."""
        current, known = self.account(), None
        if self._owner_file.exists():
            known = self._owner_file.read_text().strip()
        if current == known:
            return InstanceState("gone", None, f"{EC2}, {current}", now)
        owner = f"; the machines were seen in {known}" if known else ""
        return InstanceState("unknown", None, EC2, now, f"not visible to {current}{owner}")

    def _stock_out(self, refused: Refused) -> StockOut:
        zones = ", ".join(sorted({h.zone for h in self.inventory.hosts if h.zone}))
        return StockOut(
            f"EC2 has no such machine free in {zones} now ({refused.error_code}); "
            "nothing was started, and stopped machines keep their disks",
            refused.error_code,
            hint=start_later(self.inventory),
        )

    def _console(self, instance: str) -> str:
        read = partial(self._client, "ec2", "get_console_output", InstanceId=instance)
        codes = ("UnsupportedOperation", "InvalidParameterCombination")  # of Xen: p3
        response = unless_refused(codes, partial(read, Latest=True)) or read()
        return str(response.get("Output") or "")


def _id(host: Host) -> str:
    if not host.id:
        raise UsageError(f"{host.name} has no instance id in the cluster document")
    return host.id


def _instance_state(instance: Instance, host: Host, now: str) -> InstanceState:
    private = host.address == host.peer_address  # a host without a public address
    address = instance.PrivateIpAddress if private else instance.PublicIpAddress
    stopped = instance.StateReason if instance.state in STOPPED else ""
    reason = "; ".join(filter(None, [SPOT if instance.is_spot else "", stopped]))
    return InstanceState(
        instance.state,
        address or None,
        EC2,
        now,
        reason,
        serial=instance.InstanceId,
        created=instance.created,
        started=seconds_of(instance.LaunchTime),
        stopped=instance.stopped,
        spot=instance.offer,
    )


def networks_of(rules: Iterable[Rule], port: int) -> tuple[str, ...]:
    """The networks that security group rules allow to connect to a port."""
    networks = {rule.CidrIpv4 or rule.CidrIpv6 for rule in rules if rule.opens(port)}
    return tuple(sorted(networks - {""}))


def keys_on_console(text: str) -> tuple[str, ...]:
    """The host keys of the last complete block that cloud-init printed; empty without one."""
    blocks = _KEYS.findall(text)
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1])) if blocks else ()
