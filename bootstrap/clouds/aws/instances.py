"""EC2 instances: their states, start, stop, deadline, costs and host keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bootstrap.clouds import costs as cloud_costs
from bootstrap.clouds.aws import scheduler
from bootstrap.clouds.aws.client import AwsClient, connect
from bootstrap.clouds.aws.s3 import S3
from bootstrap.clouds.base import (
    STOPPED,
    Cost,
    Deadline,
    InstanceState,
    Refused,
    start_later,
    utc_now,
)
from bootstrap.errors import Command, Hint, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory

EC2 = "EC2 DescribeInstances"
STATES = {
    "pending": "starting",
    "running": "running",
    "shutting-down": "stopping",
    "stopping": "stopping",
    "stopped": "stopped",
    "terminated": "gone",
}
STOCK_OUTS = ("InsufficientInstanceCapacity", "InsufficientHostCapacity")
GONE: Mapping[str, Any] = {"State": {"Name": "terminated"}}
SPOT = "one-time spot: EC2 can end it, not stop it"

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
        """Start every instance that is stopped.

        Raises:
            Refused: EC2 has no capacity in the zone now, or refuses for another reason.
        """
        ids = [i for i, instance in self._instances().items() if _state(instance) == "stopped"]
        if not ids:
            return
        try:
            self._client("ec2", "start_instances", InstanceIds=ids)
        except Refused as refused:
            if refused.error_code in STOCK_OUTS:
                raise self._stock_out(refused) from None
            raise

    def stop(self) -> None:
        """Stop every instance that runs or starts.

        Raises:
            UsageError: they are one-time spot instances, which cannot be stopped.
        """
        running = self._running()
        spot = [i for i, instance in running.items() if _is_spot(instance)]
        self._request_all("stop_instances", sorted(running.keys() - set(spot)))
        if spot:
            raise UsageError(
                f"{', '.join(spot)}: {SPOT}",
                hint=Hint(
                    Command("stop", **self.inventory.target), "   # ends them, with their disks"
                ),
            )

    def end(self) -> None:
        """Terminate every instance that exists; EC2 deletes their disks."""
        exist = [i for i, one in self._instances().items() if _state(one) != "gone"]
        self._request_all("terminate_instances", sorted(exist))

    def _request_all(self, operation: str, ids: Sequence[str]) -> None:
        """One request for all. EC2 refuses it as a whole for one instance that has only begun to
        start, or is protected: then one for each, so that this keeps no other running.

        Raises:
            Refused: the first refusal, after the last request.
        """
        if not ids:
            return
        try:
            self._client("ec2", operation, InstanceIds=list(ids))
        except Refused:
            failures = [error for one in ids if (error := self._refusal(operation, one))]
            if failures:
                raise failures[0] from None

    def _refusal(self, operation: str, instance: str) -> Refused | None:
        try:
            self._client("ec2", operation, InstanceIds=[instance])
        except Refused as refused:
            return refused
        return None

    def cannot_stop(self) -> list[str]:
        """The names of one-time spot instances that run or start."""
        spot = {i for i, instance in self._running().items() if _is_spot(instance)}
        return [name for i, name in self._names.items() if i in spot]

    def _running(self) -> dict[str, Mapping[str, Any]]:
        active = ("running", "starting")
        return {i: one for i, one in self._instances().items() if _state(one) in active}

    def deadlines(self) -> dict[str, Deadline]:
        """The schedule of each instance that exists, as EventBridge Scheduler has it now."""
        instances = {i: one for i, one in self._instances().items() if _state(one) != "gone"}
        hosts = [host for host in self.inventory.hosts if _id(host) in instances]

        def read(host: Host) -> Deadline:
            name, cluster_id = self._schedule(host), self.inventory.cluster_id
            return scheduler.read(self._client, name, _id(host), instances, cluster_id)

        return {host.name: read(host) for host in hosts}

    def set_deadline(self, hours: float) -> None:
        """Move the schedules to this many hours from now; see `scheduler.set_deadline`."""
        instances = self._instances()
        exist = [h for h in self.inventory.hosts if _state(instances.get(_id(h), GONE)) != "gone"]
        scheduler.set_deadline(self._client, {self._schedule(h) for h in exist}, hours)

    def costs(self) -> list[Cost]:
        """The disks, and the bucket's content."""
        region, bucket = self.inventory.region, self.inventory.bucket
        found = list(cloud_costs.disks(self._client, region, self._names))
        if not bucket:
            return found
        store = S3(self._client, bucket.removeprefix("s3://"))
        return [*found, *cloud_costs.bucket(store, region, cloud_costs.S3)]

    def account(self) -> str:
        """The account of the current credentials."""
        return f"account {self._client('sts', 'get_caller_identity')['Account']}"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that cloud-init printed on each instance's console at its first boot."""
        found = {h.name: keys_on_console(self._console(_id(h))) for h in self.inventory.hosts}
        return {name: keys for name, keys in found.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks in the rules of the chief's security groups."""
        chief = self._instances().get(_id(self.inventory.chief), {})
        groups = [group["GroupId"] for group in chief.get("SecurityGroups", [])]
        filters = [{"Name": "group-id", "Values": groups}]
        rules = self._client("ec2", "describe_security_group_rules", Filters=filters)
        return networks_of(rules["SecurityGroupRules"], self.inventory.chief.port or 22)

    def _schedule(self, host: Host) -> str:
        """The name of a host's schedule. A document of an older stack has one for all hosts; a
        host that no document knows yet has the name that its stack gave."""
        named = [d for d in self.inventory.deadlines if d["kind"] == scheduler.KIND]
        own = [str(d["id"]) for d in named if d.get("host", host.name) == host.name]
        return own[0] if own else scheduler.name_of(self.inventory.name, _id(host))

    def _instances(self) -> dict[str, Mapping[str, Any]]:
        """EC2's descriptions of our instances, by id; records the account that owns them."""
        # By filter: with InstanceIds, EC2 returns an error when one of them is gone.
        filters = [{"Name": "instance-id", "Values": list(self._names)}]
        response = self._client("ec2", "describe_instances", Filters=filters)
        for reservation in response["Reservations"]:
            if owner := reservation.get("OwnerId"):
                atomic_write(self._owner_file, f"account {owner}\n")
        return {i["InstanceId"]: i for r in response["Reservations"] for i in r["Instances"]}

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

    def _stock_out(self, refused: Refused) -> Refused:
        zones = ", ".join(sorted({h.zone for h in self.inventory.hosts if h.zone}))
        return Refused(
            f"EC2 has no such machine free in {zones} now ({refused.error_code}); "
            "nothing was started, and stopped machines keep their disks",
            refused.error_code,
            hint=start_later(self.inventory),
        )

    def _console(self, instance: str) -> str:
        try:
            response = self._client("ec2", "get_console_output", InstanceId=instance, Latest=True)
        except Refused as refused:
            if refused.error_code not in ("UnsupportedOperation", "InvalidParameterCombination"):
                raise
            response = self._client("ec2", "get_console_output", InstanceId=instance)  # Xen: p3
        return str(response.get("Output") or "")


def _id(host: Host) -> str:
    if not host.id:
        raise UsageError(f"{host.name} has no instance id in the cluster document")
    return host.id


def _state(instance: Mapping[str, Any]) -> str:
    return STATES.get(instance.get("State", {}).get("Name", ""), "unknown")


def _is_spot(instance: Mapping[str, Any]) -> bool:
    return instance.get("InstanceLifecycle") == "spot"


def _instance_state(instance: Mapping[str, Any], host: Host, now: str) -> InstanceState:
    private = host.address == host.peer_address  # a host without a public address
    address = instance.get("PrivateIpAddress" if private else "PublicIpAddress")
    state, message = _state(instance), instance.get("StateReason", {}).get("Message", "")
    reasons = [SPOT] if _is_spot(instance) else []
    if state in STOPPED and message:
        reasons.append(message)
    reason, serial = "; ".join(reasons), instance["InstanceId"]
    return InstanceState(state, address or None, EC2, now, reason, serial=serial)


def networks_of(rules: Iterable[Mapping[str, Any]], port: int) -> tuple[str, ...]:
    """The networks that security group rules allow to connect to a port."""
    found = [
        rule.get("CidrIpv4") or rule.get("CidrIpv6") or ""
        for rule in rules
        if not rule["IsEgress"]
        and rule["IpProtocol"] in ("tcp", "-1")
        and (rule["IpProtocol"] == "-1" or rule["FromPort"] <= port <= rule["ToPort"])
    ]
    return tuple(sorted(filter(None, found)))


def keys_on_console(text: str) -> tuple[str, ...]:
    """The host keys of the last complete block that cloud-init printed; empty without one."""
    blocks = _KEYS.findall(text)
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1])) if blocks else ()
