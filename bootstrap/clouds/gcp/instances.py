"""Compute Engine instances: their states, start, stop, deadline, costs and host keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from bootstrap.clouds import costs as cloud_costs
from bootstrap.clouds.base import (
    MISSING,
    Cost,
    Deadline,
    InstanceState,
    Refused,
    start_later,
    utc_now,
)
from bootstrap.clouds.gcp.client import GoogleClient, connect, wait_for_operation
from bootstrap.clouds.gcp.gcs import Gcs
from bootstrap.console.wait import Clock
from bootstrap.errors import Command, Hint, RailheadError, UsageError
from bootstrap.inventory.hosts import Host, Inventory

COMPUTE = "Compute Engine instances.get"
KIND = "max-run-duration"
STATES = {
    "PENDING": "starting",
    "PROVISIONING": "starting",
    "STAGING": "starting",
    "REPAIRING": "starting",
    "RUNNING": "running",
    "PENDING_STOP": "stopping",
    "STOPPING": "stopping",
    "SUSPENDING": "stopping",
    "DEPROVISIONING": "stopping",
    "STOPPED": "stopped",
    "TERMINATED": "stopped",
    "SUSPENDED": "stopped",
}
STOCK_OUTS = ("POOL_EXHAUSTED", "insufficientCapacity", "UNSUPPORTED_OPERATION")
MOST_HOURS = 168
# USD per GB and month in us-central1, as of July 2026.
DISKS = {"pd-standard": 0.04, "pd-balanced": 0.10, "pd-ssd": 0.17}

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
        """Start every instance that is stopped, and wait for each operation's end.

        Raises:
            Refused: the zone has no capacity now, or Google refuses for another reason.
        """
        stopped = [h for h, instance in self._instances() if _state(instance) == "stopped"]
        started = [(h, self._client("POST", f"{_path(h)}/start")) for h in stopped]
        for host, operation in started:
            try:
                wait_for_operation(self._client, operation, self._clock)
            except Refused as refused:
                raise _stock_out(host, refused, self.inventory) from None

    def stop(self) -> None:
        """Stop every instance that runs or starts; see `_request_all`."""
        active = ("running", "starting")
        paths = [_path(h) for h, instance in self._instances() if _state(instance) in active]
        self._request_all("POST", [f"{path}/stop" for path in paths])

    def end(self) -> None:
        """Delete every instance that exists, with its disk; see `_request_all`."""
        self._request_all("DELETE", [_path(h) for h, one in self._instances() if one is not None])

    def _request_all(self, method: str, paths: Sequence[str]) -> None:
        """Make all requests: one that Google refuses must not keep other machines running.

        Raises:
            RailheadError: the first failure, after the last request.
        """
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
        return {h.name: _deadline(h, one) for h, one in self._instances() if one is not None}

    def set_deadline(self, hours: float) -> None:
        """Give every instance this many hours from its next start; it must be stopped for that.

        Raises:
            UsageError: an instance is not stopped, or the hours are out of range.
        """
        if not 0 < hours <= MOST_HOURS:
            raise UsageError(
                f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS} h"
            )
        instances = [(h, instance) for h, instance in self._instances() if instance is not None]
        seconds = str(round(hours * 3600))
        to_change = [(h, s) for h, s in instances if _seconds(s) != seconds or not _stops(s)]
        running = [h.name for h, instance in to_change if _state(instance) != "stopped"]
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
            wanted = instance.get("scheduling", {}) | {"maxRunDuration": {"seconds": seconds}}
            wanted |= {"instanceTerminationAction": "STOP"}
            operation = self._client("POST", f"{_path(host)}/setScheduling", json=wanted)
            wait_for_operation(self._client, operation, self._clock)

    def costs(self) -> list[Cost]:
        """The disks, and the bucket's content."""
        return [*self._disks(), *self._bucket()]

    def account(self) -> str:
        """The project that the instances' ids name."""
        return f"project {_parts(self.inventory.chief)[0]}"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that each instance's guest agent wrote into its guest attributes."""
        found = {h.name: self._keys_of(h) for h in self.inventory.hosts}
        return {name: keys for name, keys in found.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks that firewall rules for the chief's network and tags name."""
        chief = self._get(_path(self.inventory.chief)) or {}
        network = (chief.get("networkInterfaces") or [{}])[0].get("network", "")
        tags = chief.get("tags", {}).get("items", [])
        path = f"projects/{_parts(self.inventory.chief)[0]}/global/firewalls"
        rules = [r for r in self._client("GET", path).get("items", []) if r["network"] == network]
        return networks_of(rules, tags, self.inventory.chief.port or 22)

    def _instances(self) -> list[tuple[Host, dict[str, Any] | None]]:
        return [(host, self._get(_path(host))) for host in self.inventory.hosts]

    def _get(self, path: str, **options: Any) -> dict[str, Any] | None:
        """The resource at a path; None when there is none."""
        try:
            return self._client("GET", path, **options)
        except Refused as refused:
            if refused.error_code in ("notFound", "404"):
                return None
            raise

    def _keys_of(self, host: Host) -> tuple[str, ...]:
        query = {"queryPath": "hostkeys/"}
        attributes = self._get(f"{_path(host)}/getGuestAttributes", params=query) or {}
        items = attributes.get("queryValue", {}).get("items", [])
        return tuple(f"{i['key']} {i['value'].strip()}" for i in items if i.get("value"))

    def _disks(self) -> Iterator[Cost]:
        for host, instance in self._instances():
            for disk in (instance or {}).get("disks", []):
                source = disk.get("source", "").partition("/compute/v1/")[2]
                if not source:
                    continue
                details = self._get(source) or {}
                kind = details.get("type", "").rpartition("/")[2]
                gigabytes = int(details.get("sizeGb") or disk.get("diskSizeGb") or 0)
                price = DISKS.get(kind)
                per_day = None if price is None else gigabytes * price / cloud_costs.DAYS
                what = f"disk {source.rpartition('/')[2]} of {host.name}, {gigabytes} GB {kind}"
                yield Cost(what, per_day, Command("teardown", destroy=True))

    def _bucket(self) -> Iterator[Cost]:
        if name := (self.inventory.bucket or "").removeprefix("gs://"):
            yield from cloud_costs.bucket(
                Gcs(self._client, name), self.inventory.region, cloud_costs.GCS
            )


def _path(host: Host) -> str:
    return "projects/{}/zones/{}/instances/{}".format(*_parts(host))


def _parts(host: Host) -> tuple[str, str, str]:
    found = _ID.search(host.id or "")
    if not found:
        raise UsageError(
            f"{host.name}: its id {host.id!r} is not projects/PROJECT/zones/ZONE/instances/NAME"
        )
    return found[1], found[2], found[3]


def _state(instance: Mapping[str, Any] | None) -> str:
    return "gone" if instance is None else STATES.get(instance.get("status", ""), "unknown")


def _instance_state(instance: Mapping[str, Any] | None, host: Host, now: str) -> InstanceState:
    state = _state(instance)
    if instance is None:
        return InstanceState(state, None, COMPUTE, now)
    interface = (instance.get("networkInterfaces") or [{}])[0]
    public = (interface.get("accessConfigs") or [{}])[0].get("natIP")
    private = host.address == host.peer_address  # a host without a public address
    reason = "suspended: its memory is billed" if instance.get("status") == "SUSPENDED" else ""
    reason = reason or instance.get("statusMessage", "")
    address = interface.get("networkIP") if private else public
    return InstanceState(
        state, address or None, COMPUTE, now, reason, serial=str(instance.get("id", ""))
    )


def networks_of(
    rules: Iterable[Mapping[str, Any]], tags: Collection[str], port: int
) -> tuple[str, ...]:
    """The networks that firewall rules allow to connect to a port of instances with these tags.

    Deny rules are ignored: a stack's own rules have precedence over all others.
    """
    found: set[str] = set()
    for rule in rules:
        applies = not rule.get("targetTags") or not set(rule["targetTags"]).isdisjoint(tags)
        opens = any(_covers(each, port) for each in rule.get("allowed", []))
        if applies and opens and rule.get("direction") == "INGRESS" and not rule.get("disabled"):
            found |= set(rule.get("sourceRanges", []))
    return tuple(sorted(found))


def _covers(allowed: Mapping[str, Any], port: int) -> bool:
    if allowed["IPProtocol"] not in ("tcp", "all"):
        return False
    spans = [text.partition("-") for text in allowed.get("ports", [])]
    return not spans or any(int(a) <= port <= int(b or a) for a, _, b in spans)


def _seconds(instance: Mapping[str, Any]) -> str:
    """maxRunDuration in seconds; empty where there is none."""
    return str(instance.get("scheduling", {}).get("maxRunDuration", {}).get("seconds", ""))


def _stops(instance: Mapping[str, Any]) -> bool:
    return instance.get("scheduling", {}).get("instanceTerminationAction") in ("STOP", "DELETE")


def _deadline(host: Host, instance: Mapping[str, Any]) -> Deadline:
    seconds = _seconds(instance)
    if not seconds or not _stops(instance):
        return Deadline(KIND, None, MISSING, COMPUTE, f"{host.name} has none")
    length = f"{int(seconds) / 3600:g} h from each start"
    if _state(instance) != "running":
        return Deadline(KIND, None, "armed", COMPUTE, length)
    at = _ends(instance, int(seconds))
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", COMPUTE, length, fixed=True)


def _ends(instance: Mapping[str, Any], seconds: int) -> datetime | None:
    """When Compute stops a running instance: its timestamp, else start time plus duration."""
    own = instance.get("resourceStatus", {}).get("scheduling", {}).get("terminationTimestamp")
    if own:
        return _moment(own)
    began = instance.get("lastStartTimestamp")
    return _moment(began) + timedelta(seconds=seconds) if began else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def _stock_out(host: Host, refused: Refused, inventory: Inventory) -> RailheadError:
    if not any(code in refused.error_code for code in STOCK_OUTS):
        return refused
    return Refused(
        f"{host.name}: Google has no such machine free in {host.zone} now; it is stopped and keeps "
        f"its disk\n  {refused.message}",
        refused.error_code,
        hint=start_later(inventory),
    )
