"""Compute Engine machines as Google has them: asked by id, started, stopped, their keys read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from bootstrap.clouds import costs as cloud_costs
from bootstrap.clouds.base import MISSING, Cost, Deadline, InstanceState, Refused, utc_now
from bootstrap.clouds.gcp.client import GoogleClient, connect, wait_for_operation
from bootstrap.clouds.gcp.gcs import Gcs
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError
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
    """The machines of one inventory in one project."""

    def __init__(
        self, inventory: Inventory, ask: GoogleClient | None = None, clock: Clock | None = None
    ) -> None:
        self.inventory = inventory
        for host in inventory.hosts:
            _path(host)
        self._ask = ask or connect()
        self._clock = clock or Clock()

    def instance_states(self) -> dict[str, InstanceState]:
        """What Compute says of each host; a 404 inside a project that answers is "gone"."""
        now = utc_now()
        return {h.name: _standing(said, h, now) for h, said in self._instances()}

    def start(self) -> None:
        """Start every machine that is stopped, and wait for Google's word on each.

        Raises:
            Refused: none is free in that zone now, or Google's own word for another reason.
        """
        stopped = [h for h, said in self._instances() if _state(said) == "stopped"]
        begun = [(h, self._ask("POST", f"{_path(h)}/start")) for h in stopped]
        for host, operation in begun:
            try:
                wait_for_operation(self._ask, operation, self._clock)
            except Refused as refused:
                raise _stock_out(host, refused) from None

    def stop(self) -> None:
        """Stop every machine that runs or starts."""
        for host, said in self._instances():
            if _state(said) in ("running", "starting"):
                self._ask("POST", f"{_path(host)}/stop")

    def deadline(self) -> Deadline | None:
        """The first moment at which Compute stops one of the machines by itself."""
        if not any(d["kind"] == KIND for d in self.inventory.deadlines):
            return None
        found = [_deadline(h, said) for h, said in self._instances() if said is not None]
        by_urgency = sorted(found, key=lambda d: (d.state != MISSING, d.at is None, d.at or 0))
        return by_urgency[0] if found else Deadline(KIND, None, MISSING, COMPUTE, "no machine")

    def set_deadline(self, hours: float) -> None:
        """Give every machine so many hours from its next start; Compute takes it only stopped.

        Raises:
            UsageError: a machine is not stopped, or the hours are out of range.
        """
        if not 0 < hours <= MOST_HOURS:
            raise UsageError(
                f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS} h"
            )
        instances = [(h, said) for h, said in self._instances() if said is not None]
        seconds = str(round(hours * 3600))
        other = [(h, s) for h, s in instances if _seconds(s) != seconds or not _stops(s)]
        awake = [h.name for h, said in other if _state(said) != "stopped"]
        if awake:
            raise UsageError(
                f"{', '.join(awake)}: Compute moves maxRunDuration only while a machine is stopped",
                hint=f"fab stop, then fab start --hours {hours:g}",
            )
        for host, said in other:
            wanted = said.get("scheduling", {}) | {"maxRunDuration": {"seconds": seconds}}
            wanted |= {"instanceTerminationAction": "STOP"}
            operation = self._ask("POST", f"{_path(host)}/setScheduling", json=wanted)
            wait_for_operation(self._ask, operation, self._clock)

    def costs(self) -> list[Cost]:
        """The disks, by size, and the bucket, by what is in it."""
        return [*self._disks(), *self._bucket()]

    def account(self) -> str:
        """The project that the machines' ids name."""
        return f"project {_parts(self.inventory.chief)[0]}"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys that each machine's guest agent wrote into its guest attributes."""
        found = {h.name: self._keys_of(h) for h in self.inventory.hosts}
        return {name: keys for name, keys in found.items() if keys}

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks that firewall rules for the chief's network and tags name."""
        said = self._get(_path(self.inventory.chief)) or {}
        network = (said.get("networkInterfaces") or [{}])[0].get("network", "")
        tags = said.get("tags", {}).get("items", [])
        path = f"projects/{_parts(self.inventory.chief)[0]}/global/firewalls"
        rules = [r for r in self._ask("GET", path).get("items", []) if r["network"] == network]
        return networks_of(rules, tags, self.inventory.chief.port or 22)

    def _instances(self) -> list[tuple[Host, dict[str, Any] | None]]:
        return [(host, self._get(_path(host))) for host in self.inventory.hosts]

    def _get(self, path: str, **words: Any) -> dict[str, Any] | None:
        """What stands there; None where Google says that nothing does."""
        try:
            return self._ask("GET", path, **words)
        except Refused as refused:
            if refused.error_code in ("notFound", "404"):
                return None
            raise

    def _keys_of(self, host: Host) -> tuple[str, ...]:
        query = {"queryPath": "hostkeys/"}
        said = self._get(f"{_path(host)}/getGuestAttributes", params=query) or {}
        items = said.get("queryValue", {}).get("items", [])
        return tuple(f"{i['key']} {i['value'].strip()}" for i in items if i.get("value"))

    def _disks(self) -> Iterator[Cost]:
        for host, said in self._instances():
            for disk in (said or {}).get("disks", []):
                source = disk.get("source", "").partition("/compute/v1/")[2]
                if not source:
                    continue
                there = self._get(source) or {}
                kind = there.get("type", "").rpartition("/")[2]
                gigabytes = int(there.get("sizeGb") or disk.get("diskSizeGb") or 0)
                each = DISKS.get(kind)
                per_day = None if each is None else gigabytes * each / cloud_costs.DAYS
                what = f"disk {source.rpartition('/')[2]} of {host.name}, {gigabytes} GB {kind}"
                yield Cost(what, per_day, "fab teardown --destroy")

    def _bucket(self) -> Iterator[Cost]:
        if name := (self.inventory.bucket or "").removeprefix("gs://"):
            yield from cloud_costs.bucket(
                Gcs(self._ask, name), self.inventory.region, cloud_costs.GCS
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


def _state(said: Mapping[str, Any] | None) -> str:
    return "gone" if said is None else STATES.get(said.get("status", ""), "unknown")


def _standing(said: Mapping[str, Any] | None, host: Host, now: str) -> InstanceState:
    state = _state(said)
    if said is None:
        return InstanceState(state, None, COMPUTE, now)
    card = (said.get("networkInterfaces") or [{}])[0]
    outside = (card.get("accessConfigs") or [{}])[0].get("natIP")
    inside = host.address == host.peer_address  # it has no public address, and needs none
    why = "suspended: its memory still bills" if said.get("status") == "SUSPENDED" else ""
    why = why or said.get("statusMessage", "")
    address = card.get("networkIP") if inside else outside
    return InstanceState(state, address or None, COMPUTE, now, why, serial=str(said.get("id", "")))


def networks_of(
    rules: Iterable[Mapping[str, Any]], tags: Collection[str], port: int
) -> tuple[str, ...]:
    """The networks that firewall rules let in to a port of machines with these tags.

    What other rules deny is not counted: a stack's own rules come before all others.
    """
    found: set[str] = set()
    for rule in rules:
        aimed = not rule.get("targetTags") or not set(rule["targetTags"]).isdisjoint(tags)
        opens = any(_covers(each, port) for each in rule.get("allowed", []))
        if aimed and opens and rule.get("direction") == "INGRESS" and not rule.get("disabled"):
            found |= set(rule.get("sourceRanges", []))
    return tuple(sorted(found))


def _covers(allowed: Mapping[str, Any], port: int) -> bool:
    if allowed["IPProtocol"] not in ("tcp", "all"):
        return False
    spans = [text.partition("-") for text in allowed.get("ports", [])]
    return not spans or any(int(a) <= port <= int(b or a) for a, _, b in spans)


def _seconds(said: Mapping[str, Any]) -> str:
    """maxRunDuration as Compute has it; empty where there is none."""
    return str(said.get("scheduling", {}).get("maxRunDuration", {}).get("seconds", ""))


def _stops(said: Mapping[str, Any]) -> bool:
    return said.get("scheduling", {}).get("instanceTerminationAction") in ("STOP", "DELETE")


def _deadline(host: Host, said: Mapping[str, Any]) -> Deadline:
    seconds = _seconds(said)
    if not seconds or not _stops(said):
        return Deadline(KIND, None, MISSING, COMPUTE, f"{host.name} has none")
    why = f"{int(seconds) / 3600:g} h from each start"
    if _state(said) != "running":
        return Deadline(KIND, None, "armed", COMPUTE, why)
    at = _ends(said, int(seconds))
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", COMPUTE, why)


def _ends(said: Mapping[str, Any], seconds: int) -> datetime | None:
    """When a running machine is stopped: Compute's own figure, else start and length."""
    own = said.get("resourceStatus", {}).get("scheduling", {}).get("terminationTimestamp")
    if own:
        return _moment(own)
    began = said.get("lastStartTimestamp")
    return _moment(began) + timedelta(seconds=seconds) if began else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def _stock_out(host: Host, refused: Refused) -> RailheadError:
    if not any(word in refused.error_code for word in STOCK_OUTS):
        return refused
    return Refused(
        f"{host.name}: Google has no such machine free in {host.zone} now; it is stopped and keeps "
        f"its disk\n  {refused.message}",
        refused.error_code,
        hint="fab start   # later; or in another zone, with new machines: "
        "pulumi config set zones ZONE && pulumi up",
    )
