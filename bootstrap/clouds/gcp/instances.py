"""Compute Engine instances: their states, start, stop, deadline, costs and host keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.times import seconds
from railhead.documents.uri import bucket_uri
from railhead.money.host import DiskSpec

from ...console.wait import Clock
from ...errors import Command, Hint, RailheadError, UsageError
from ...inventory.hosts import Host, Inventory
from .. import costs as cloud_costs
from ..base import (
    MISSING,
    Cost,
    Deadline,
    InstanceState,
    Refused,
    StockOut,
    refuse_hours,
    start_later,
    through_outages,
    unless_refused,
    utc_now,
)
from .client import GoogleClient, connect, wait_for_operation
from .compute import Disk, Firewall, GuestAttributes, Instance
from .gcs import ABSENT, Gcs

T = TypeVar("T")
COMPUTE = "Compute Engine instances.get"
KIND = "max-run-duration"
STOCK_OUTS = (*COMMON_FACTS["gcp"].no_capacity, "insufficientCapacity", "UNSUPPORTED_OPERATION")

_ID = re.compile(r"projects/([^/]+)/zones/([^/]+)/instances/([^/]+)")


class Gcp:
    """The Compute Engine instances of one inventory, in one project."""

    def __init__(
        self, inventory: Inventory, client: GoogleClient | None = None, clock: Clock | None = None
    ) -> None:
        self.inventory = inventory
        for host in inventory.hosts:
            _path(host)
        self._client = client or connect()
        self._clock = clock or Clock()

    def instance_states(self) -> dict[str, InstanceState]:
        """Each host's state; "gone" is a 404 in a project that can be read."""
        now = utc_now()
        return {h.name: _instance_state(instance, h, now) for h, instance in self._instances()}

    def start(self) -> None:
        """Start every instance that is stopped, and wait for each operation's end, also after a
        failure: until then an instance is shown as stopped, and `stop` would leave it out. Refused:
        the zone has no capacity now, or Google refuses for another reason."""
        stopped = [h for h, instance in self._instances() if _state(instance) == "stopped"]
        started: list[tuple[Host, Any]] = []
        failures: list[RailheadError] = []
        for host in stopped:
            try:
                started.append((host, self._client("POST", f"{_path(host)}/start")))
            except RailheadError as error:
                failures.append(error)
                break
        for host, operation in started:
            try:
                wait_for_operation(self._client, operation, self._clock)
            except Refused as refused:
                failures.append(_stock_out(host, refused, self.inventory))
            except RailheadError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    @through_outages()
    def stop(self) -> None:
        """Stop every instance that runs or starts; see `_request_all`."""
        active = [pair for pair in self._existing() if pair[1].state in ("running", "starting")]
        self._request_all("POST", [_stop_path(*pair) for pair in active])

    @through_outages()
    def terminate(self) -> None:
        """Delete every instance that exists, with its disk; see `_request_all`."""
        self._request_all("DELETE", [_path(host) for host, _ in self._existing()])

    def _request_all(self, method: str, paths: Sequence[str]) -> None:
        """Make all requests: a refused one must not keep other machines running. RailheadError: the
        first failure, after the last request."""
        failures = []
        for path in paths:
            try:
                self._client(method, path)
            except RailheadError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def cannot_stop(self) -> list[str]:
        """None: Google stops every machine, spot ones too."""
        return []

    def deadlines(self) -> dict[str, Deadline]:
        """When Compute itself stops each instance that exists."""
        return {host.name: _deadline(host, instance) for host, instance in self._existing()}

    def set_deadline(self, hours: float) -> None:
        """Give every instance this many hours from its next start; it must be stopped for that.
        UsageError: an instance is not stopped, or the hours are out of range."""
        refuse_hours(hours)
        seconds = str(round(hours * 3600))
        to_change = [(h, i) for h, i in self._existing() if i.seconds != seconds or not i.stops]
        running = [h.name for h, instance in to_change if instance.state != "stopped"]
        if running:
            target = self.inventory.target
            raise UsageError(
                f"{', '.join(running)}: maxRunDuration can only change while a machine is stopped",
                hint=Hint(
                    Command("stop", **target),
                    ", then ",
                    Command("start", **target, hours=f"{hours:g}"),
                ),
            )
        for host, instance in to_change:
            scheduling = self._client("GET", _path(host)).get("scheduling", {})  # all its keys
            scheduling["maxRunDuration"] = {"seconds": seconds}
            scheduling["instanceTerminationAction"] = "STOP"
            if instance.has_local_ssd:  # Google refuses it for other instances
                scheduling["onInstanceStopAction"] = {"discardLocalSsd": True}
            operation = self._client("POST", f"{_path(host)}/setScheduling", json=scheduling)
            wait_for_operation(self._client, operation, self._clock)

    def costs(self) -> list[Cost]:
        """The disks, and the bucket's content."""
        return [*self._disks(), *self._bucket()]

    def account(self) -> str:
        """The project that the instances' ids name."""
        return f"project {_parts(self.inventory.chief)[0]}"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that each instance's guest agent wrote into its guest attributes."""
        all_keys = {h.name: self._keys_of(h) for h in self.inventory.hosts}
        return {name: keys for name, keys in all_keys.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks that firewall rules for the chief's network and tags name."""
        chief = self._get(Instance, _path(self.inventory.chief)) or Instance()
        path = f"projects/{_parts(self.inventory.chief)[0]}/global/firewalls"
        listed = self._client.items(Firewall, path, {})
        rules = (rule for rule in listed if rule.network == chief.interface.network)
        return networks_of(rules, chief.tags, self.inventory.chief.port or 22)

    def _instances(self) -> list[tuple[Host, Instance | None]]:
        return [(host, self._get(Instance, _path(host))) for host in self.inventory.hosts]

    def _existing(self) -> list[tuple[Host, Instance]]:
        return [(host, instance) for host, instance in self._instances() if instance is not None]

    def _get(self, kind: type[T], path: str, **options: Any) -> T | None:
        """The resource at a path; None when there is none."""
        return unless_refused(ABSENT, lambda: self._client.get(kind, path, **options))

    def _keys_of(self, host: Host) -> tuple[str, ...]:
        query = {"queryPath": "hostkeys/"}
        path = f"{_path(host)}/getGuestAttributes"
        attributes = self._get(GuestAttributes, path, params=query) or GuestAttributes()
        return tuple(f"{i.key} {i.value.strip()}" for i in attributes.queryValue if i.value)

    def _disks(self) -> Iterator[Cost]:
        for host, instance in self._instances():
            for disk in instance.disks if instance else ():
                source = disk.source.partition("/compute/v1/")[2]
                if not source:
                    continue
                details = self._get(Disk, source) or Disk()
                kind = details.type.rpartition("/")[2]
                gigabytes = int(details.sizeGb or disk.diskSizeGb)
                name, region = source.rpartition("/")[2], self.inventory.region
                usd = cloud_costs.disk_per_day(DiskSpec(gigabytes), "gcp", kind, region)
                yield cloud_costs.disk(f"disk {name} of {host.name}, {gigabytes} GB {kind}", usd)

    def _bucket(self) -> Iterator[Cost]:
        if self.inventory.bucket:
            store = Gcs(self._client, bucket_uri(self.inventory.bucket, error=UsageError).bucket)
            yield from cloud_costs.bucket(store, self.inventory.region, "gcp")


def _path(host: Host) -> str:
    return "projects/{}/zones/{}/instances/{}".format(*_parts(host))


def _stop_path(host: Host, instance: Instance) -> str:
    """The call that stops an instance. Compute requires the parameter for local SSDs, whose content
    is lost then."""
    discard = "?discardLocalSsd=true" if instance.has_local_ssd else ""
    return f"{_path(host)}/stop{discard}"


def _parts(host: Host) -> tuple[str, str, str]:
    match = _ID.search(host.id or "")
    if not match:
        raise UsageError(
            f"{host.name}: its id {host.id!r} is not projects/PROJECT/zones/ZONE/instances/NAME"
        )
    return match[1], match[2], match[3]


def _state(instance: Instance | None) -> str:
    return instance.state if instance else "gone"


def _instance_state(instance: Instance | None, host: Host, now: str) -> InstanceState:
    if instance is None:
        return InstanceState("gone", None, COMPUTE, now)
    private = host.address == host.peer_address  # a host without a public address
    address = instance.interface.networkIP if private else instance.interface.public
    suspended = "suspended: its memory is billed" if instance.status == "SUSPENDED" else ""
    reason = suspended or instance.statusMessage
    return InstanceState(
        instance.state,
        address or None,
        COMPUTE,
        now,
        reason,
        serial=instance.id,
        created=seconds(instance.creationTimestamp),
        started=seconds(instance.lastStartTimestamp),
        stopped=seconds(instance.lastStopTimestamp),
    )


def networks_of(rules: Iterable[Firewall], tags: Collection[str], port: int) -> tuple[str, ...]:
    """The networks that firewall rules allow to connect to a port of instances with these tags.
    Deny rules are ignored: a stack's own rules have precedence over all others."""
    opening = (rule for rule in rules if rule.opens(tags, port))
    return tuple(sorted({network for rule in opening for network in rule.sourceRanges}))


def _deadline(host: Host, instance: Instance) -> Deadline:
    if not instance.seconds or not instance.stops:
        keeps = instance.seconds and instance.scheduling.instanceTerminationAction == "STOP"
        why = "would keep its local SSDs, which Compute refuses" if keeps else "has none"
        return Deadline(KIND, None, MISSING, COMPUTE, f"{host.name} {why}")
    length = f"{int(instance.seconds) / 3600:g} h from each start"
    if instance.state != "running":
        return Deadline(KIND, None, "armed", COMPUTE, length)
    end = instance.ends
    past = end is not None and end <= datetime.now(timezone.utc)
    return Deadline(KIND, end, "past" if past else "armed", COMPUTE, length, fixed=True)


def _stock_out(host: Host, refused: Refused, inventory: Inventory) -> RailheadError:
    if not any(code in refused.error_code for code in STOCK_OUTS):
        return refused
    return StockOut(
        f"{host.name}: Google has no such machine free in {host.zone} now; it is stopped and keeps "
        f"its disk\n  {refused.message}",
        refused.error_code,
        hint=start_later(inventory),
    )
