"""EC2 machines as EC2 has them: asked by id, started, stopped, and their keys read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bootstrap.clouds import costs as cloud_costs
from bootstrap.clouds.aws import scheduler
from bootstrap.clouds.aws.client import Ask, connect
from bootstrap.clouds.aws.s3 import S3
from bootstrap.clouds.base import Cost, Deadline, InstanceState, Refused, utc_now
from bootstrap.errors import UsageError
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
SPOT = "one-time spot: EC2 can end it, not stop it"

_KEYS = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL
)
_KEY = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp\d+|ssh-rsa) (AAAA[A-Za-z0-9+/]+={0,2})")


class Aws:
    """The EC2 machines of one inventory."""

    def __init__(self, inventory: Inventory, ask: Ask | None = None) -> None:
        self.inventory = inventory
        self._names = {_id(host): host.name for host in inventory.hosts}
        self._ask = ask or connect(inventory.region)

    def instance_states(self) -> dict[str, InstanceState]:
        """What DescribeInstances says of each host; see `_unseen` for those it does not show."""
        shown, now = self._instances(), utc_now()
        return {
            h.name: _standing(shown[_id(h)], h, now) if _id(h) in shown else self._unseen(now)
            for h in self.inventory.hosts
        }

    def start(self) -> None:
        """Start every machine that is stopped.

        Raises:
            Refused: EC2 has none free in that zone now, or its own word for another reason.
        """
        ids = [i for i, said in self._instances().items() if _state(said) == "stopped"]
        if not ids:
            return
        try:
            self._ask("ec2", "start_instances", InstanceIds=ids)
        except Refused as refused:
            if refused.error_code in STOCK_OUTS:
                raise self._stock_out(refused) from None
            raise

    def stop(self) -> None:
        """Stop every machine that runs or starts.

        Raises:
            UsageError: they are one-time spot machines, which cannot be stopped.
        """
        shown = self._instances()
        running = {i: said for i, said in shown.items() if _state(said) in ("running", "starting")}
        spot = [i for i, said in running.items() if said.get("InstanceLifecycle") == "spot"]
        if running.keys() - set(spot):
            self._ask("ec2", "stop_instances", InstanceIds=sorted(running.keys() - set(spot)))
        if spot:
            raise UsageError(
                f"{', '.join(spot)}: {SPOT}",
                hint="fab teardown --destroy   # ends them, with their disks: fab fetch first",
            )

    def deadline(self) -> Deadline | None:
        """The schedule that stops exactly these machines, as the Scheduler has it now."""
        name = self._schedule
        return scheduler.read(self._ask, name, self._names) if name else None

    def set_deadline(self, hours: float) -> None:
        """Move that schedule's time to so many hours from now; see `scheduler.arm`."""
        if self._schedule:
            scheduler.set_deadline(self._ask, self._schedule, hours)

    def costs(self) -> list[Cost]:
        """The disks, by size, and the bucket, by what is in it."""
        region, bucket = self.inventory.region, self.inventory.bucket
        found = list(cloud_costs.disks(self._ask, region, self._names))
        if not bucket:
            return found
        store = S3(self._ask, bucket.removeprefix("s3://"))
        return [*found, *cloud_costs.bucket(store, region, cloud_costs.S3)]

    def account(self) -> str:
        """The account of whoever asks."""
        return f"account {self._ask('sts', 'get_caller_identity')['Account']}"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that cloud-init printed on each machine's console at its first boot."""
        found = {h.name: keys_on_console(self._console(_id(h))) for h in self.inventory.hosts}
        return {name: keys for name, keys in found.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks that the rules of the chief's security groups name."""
        said = self._instances().get(_id(self.inventory.chief), {})
        groups = [group["GroupId"] for group in said.get("SecurityGroups", [])]
        filters = [{"Name": "group-id", "Values": groups}]
        rules = self._ask("ec2", "describe_security_group_rules", Filters=filters)
        return networks_of(rules["SecurityGroupRules"], self.inventory.chief.port or 22)

    @property
    def _schedule(self) -> str | None:
        named = [d["id"] for d in self.inventory.deadlines if d["kind"] == scheduler.KIND]
        return named[0] if named else None

    def _instances(self) -> dict[str, Mapping[str, Any]]:
        """What EC2 shows of our machines, by id; remembers whose they are."""
        # By filter: asked by InstanceIds, one that is gone would hide all others.
        filters = [{"Name": "instance-id", "Values": list(self._names)}]
        said = self._ask("ec2", "describe_instances", Filters=filters)
        for reservation in said["Reservations"]:
            if owner := reservation.get("OwnerId"):
                atomic_write(self._owner_file, f"account {owner}\n")
        return {i["InstanceId"]: i for r in said["Reservations"] for i in r["Instances"]}

    @property
    def _owner_file(self) -> Path:
        return local_state.cluster_folder(self.inventory.name) / "account"

    def _unseen(self, now: str) -> InstanceState:
        """A machine that EC2 does not show. Only the account that had it can say that it is gone:
        EC2 says the same of a machine that runs in another account."""
        mine, known = self.account(), None
        if self._owner_file.exists():
            known = self._owner_file.read_text().strip()
        if mine == known:
            return InstanceState("gone", None, f"{EC2}, {mine}", now)
        whose = f"; the machines were seen in {known}" if known else ""
        return InstanceState("unknown", None, EC2, now, f"not visible to {mine}{whose}")

    def _stock_out(self, refused: Refused) -> Refused:
        zones = ", ".join(sorted({h.zone for h in self.inventory.hosts if h.zone}))
        return Refused(
            f"EC2 has no such machine free in {zones} now ({refused.error_code}); "
            "nothing was started, and stopped machines keep their disks",
            refused.error_code,
            hint="fab start   # later; or in another zone, with new machines: "
            "pulumi config set zones ZONE && pulumi up",
        )

    def _console(self, instance: str) -> str:
        try:
            said = self._ask("ec2", "get_console_output", InstanceId=instance, Latest=True)
        except Refused as refused:
            if refused.error_code not in ("UnsupportedOperation", "InvalidParameterCombination"):
                raise
            said = self._ask("ec2", "get_console_output", InstanceId=instance)  # Xen: p3
        return str(said.get("Output") or "")


def _id(host: Host) -> str:
    if not host.id:
        raise UsageError(f"{host.name} has no instance id in the cluster document")
    return host.id


def _state(said: Mapping[str, Any]) -> str:
    return STATES.get(said.get("State", {}).get("Name", ""), "unknown")


def _standing(said: Mapping[str, Any], host: Host, now: str) -> InstanceState:
    inside = host.address == host.peer_address  # it has no public address, and needs none
    address = said.get("PrivateIpAddress" if inside else "PublicIpAddress")
    reason = said.get("StateReason", {}).get("Message", "")
    why = SPOT if said.get("InstanceLifecycle") == "spot" else ""
    if _state(said) in ("stopped", "gone") and reason:
        why = f"{why}; {reason}" if why else reason
    return InstanceState(_state(said), address or None, EC2, now, why, serial=said["InstanceId"])


def networks_of(rules: Iterable[Mapping[str, Any]], port: int) -> tuple[str, ...]:
    """The networks that rules of security groups let in to a port."""
    found = [
        rule.get("CidrIpv4") or rule.get("CidrIpv6") or ""
        for rule in rules
        if not rule["IsEgress"]
        and rule["IpProtocol"] in ("tcp", "-1")
        and (rule["IpProtocol"] == "-1" or rule["FromPort"] <= port <= rule["ToPort"])
    ]
    return tuple(sorted(filter(None, found)))


def keys_on_console(text: str) -> tuple[str, ...]:
    """The host keys of the last whole block that cloud-init printed; empty when there is none."""
    blocks = _KEYS.findall(text)
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1])) if blocks else ()
