"""The few calls of Compute Engine that fab makes, served on this machine.

Every call is held against Google's own discovery document; one that is not in it, or a body with
a key that is not, ends with 400. What the machines do is moved by the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from standins.gcp.discovery import document
from standins.gcp.server import Answer, Call, address, error, start

from bootstrap.clouds.gcp import rights

CALLS = (
    "instances.get",
    "instances.start",
    "instances.stop",
    "instances.setScheduling",
    "instances.getGuestAttributes",
    "instances.delete",
    "instances.aggregatedList",
    "zoneOperations.get",
    "disks.get",
    "firewalls.list",
    "projects.get",
)

# The words of Compute, as in skypilot-org/skypilot issue 2586. Its description says of
# `discardLocalSsd`: "This property is required if the instance has any attached Local SSD disks."
NO_DISCARD = (
    "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. If using gcloud, "
    "please add `--discard-local-ssd=false` or `--discard-local-ssd=true` to your command."
)


def has_local_ssd(instance: Mapping[str, Any]) -> bool:
    """Whether a machine has local SSDs: disks of the type SCRATCH."""
    return any(disk.get("type") == "SCRATCH" for disk in instance.get("disks", ()))


def stop_action_error(scheduling: Mapping[str, Any], *, local_ssd: bool) -> str:
    """Why Compute refuses what a machine does with its local SSDs when its time is over. gcloud on
    `--discard-local-ssds-at-termination-timestamp`: "Required to be set to true and only allowed
    for VMs that have one or more local SSDs", stop, and have a limit."""
    discards = scheduling.get("onInstanceStopAction", {}).get("discardLocalSsd") is True
    stops = "maxRunDuration" in scheduling and scheduling.get("instanceTerminationAction") == "STOP"
    if discards and not (local_ssd and stops):
        return "onInstanceStopAction: only for machines with local SSDs that stop after a time"
    if local_ssd and stops and not discards:
        return "onInstanceStopAction: machines with local SSDs need discardLocalSsd"
    return ""


@dataclass
class Compute:
    """One project. `errors` are those of the next operations that start a machine, by its name."""

    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    attributes: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: tuple[int, str] | None = None
    protected: set[str] = field(default_factory=set)  # machines whose changes are refused
    requests: list[str] = field(default_factory=list)
    base: str = ""  # where its paths begin, once it is served
    slow: int = 1  # how many requests an operation takes until it is done
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    firewalls: list[dict[str, Any]] = field(default_factory=list)
    ended: Callable[[str], None] = lambda path: None  # sees each machine that is deleted
    # Of the project: permissions that the caller lacks, policies of the organisation, quotas.
    missing: set[str] = field(default_factory=set)
    unreachables: tuple[str, ...] = ()  # zones that a list of all machines names and leaves out
    warned: tuple[str, ...] = ()  # zones that it has with a warning instead of machines
    policies: dict[str, Any] = field(default_factory=dict)
    managed: dict[str, Any] = field(default_factory=dict)  # rules of managed constraints
    no_policies: str = ""  # why Google does not show them
    quotas: dict[str, tuple[float, float]] = field(default_factory=lambda: {"NETWORKS": (5.0, 1.0)})
    page: int = 1  # machines on a page of a list

    def __post_init__(self) -> None:
        api = document("compute")
        self.schemas = api.schemas
        self.calls = {call: api.methods[f"compute.{call}"] for call in CALLS}

    def add(self, path: str, **options: Any) -> None:
        """A machine at projects/P/zones/Z/instances/N that runs."""
        now = datetime.now(timezone.utc)
        card = {"networkIP": "10.164.0.8", "accessConfigs": [{"natIP": "198.51.100.99"}]}
        discard = {"onInstanceStopAction": {"discardLocalSsd": True}}
        self.instances[path] = {
            "id": "4711",
            "name": path.rpartition("/")[2],
            "status": "RUNNING",
            "networkInterfaces": [card],
            "lastStartTimestamp": (now - timedelta(hours=1)).isoformat(),
            "scheduling": {
                "onHostMaintenance": "TERMINATE",
                "automaticRestart": False,
                "instanceTerminationAction": "STOP",
                "maxRunDuration": {"seconds": "14400"},
                **(discard if has_local_ssd(options) else {}),
            },
        } | options

    def settle(self) -> None:
        """Complete all starts and stops."""
        for instance in self.instances.values():
            if instance["status"] == "STAGING":
                started = datetime.now(timezone.utc).isoformat()
                instance |= {"status": "RUNNING", "lastStartTimestamp": started}
            elif instance["status"] == "STOPPING":
                stopped = datetime.now(timezone.utc).isoformat()
                instance |= {"status": "TERMINATED", "lastStopTimestamp": stopped}
        for at in self.operations:
            self._end(at)

    def answer(
        self, method: str, path: str, body: Any, query: Mapping[str, str]
    ) -> tuple[int, Any]:
        """The status and the JSON of one call."""
        self.requests.append(f"{method} {path}")
        if self.denied:
            return self.denied[0], _error(*self.denied)
        if path.startswith("v2/projects/"):
            return self._managed_policy(path)
        if path.startswith("v1/projects/"):
            return self._resource_manager(path.rpartition(":")[2], body)
        resource, name, at = self._call(method, path)
        if unknown := query.keys() - self.calls[f"{resource}.{name}"]["parameters"].keys():
            return 400, _error(400, f"there is no parameter {', '.join(unknown)}")
        if resource == "projects":
            return 200, {"name": at.rpartition("/")[2], "quotas": self._quotas()}
        if resource == "zoneOperations":
            return 200, self._operation(at)
        if resource == "disks":
            kind = f"https://www.googleapis.com/compute/v1/{at.partition('/disks/')[0]}/diskTypes/pd-ssd"
            return 200, {"sizeGb": "100", "type": kind}
        if resource == "firewalls":
            unknown = {k for r in self.firewalls for k in r} - self.schemas["Firewall"][
                "properties"
            ].keys()
            assert not unknown, f"no firewall of Compute has {unknown}"
            return 200, {"items": self.firewalls}
        if method == "GET":  # whoever looks: a deletion goes on although nobody asks for it
            for operation in [one for one, each in self.operations.items() if each["deletes"]]:
                self._operation(operation)
        if name == "aggregatedList":
            unreachables = {"unreachables": [*self.unreachables]} if self.unreachables else {}
            return 200, {**self._page(query), **unreachables}
        instance = self.instances.get(at)
        if instance is None:
            return 404, _error(404, "notFound")
        if name == "get":
            return 200, instance
        if name == "getGuestAttributes":
            items = self.attributes.get(at)
            return (
                (200, {"queryValue": {"items": items}}) if items else (404, _error(404, "notFound"))
            )
        if name == "stop" and has_local_ssd(instance) and "discardLocalSsd" not in query:
            return 400, _error(400, "badRequest", NO_DISCARD)
        return self._change(name, at, instance, body)

    def _quotas(self) -> list[dict[str, Any]]:
        return [
            {"metric": metric, "limit": limit, "usage": used}
            for metric, (limit, used) in self.quotas.items()
        ]

    def _resource_manager(self, method: str, body: Any) -> tuple[int, Any]:
        """The answers of cloudresourcemanager, which shares the address of this server."""
        assert f"cloudresourcemanager.projects.{method}" in rights.CALLS
        if method == "testIamPermissions":
            assert len(body["permissions"]) <= 100, "Google takes at most 100"
            return 200, {"permissions": sorted({*body["permissions"]} - self.missing)}
        if self.no_policies:
            return 403, _error(403, "forbidden", self.no_policies)
        return 200, self.policies.get(body["constraint"].removeprefix("constraints/"), {})

    def _managed_policy(self, path: str) -> tuple[int, Any]:
        """The answers of orgpolicy, which shares the address of this server."""
        assert "orgpolicy.projects.policies.getEffectivePolicy" in rights.CALLS
        found = re.fullmatch(r"v2/projects/([^/]+)/policies/([\w.]+):getEffectivePolicy", path)
        assert found, path
        if self.no_policies:
            return 403, _error(403, "forbidden", self.no_policies)
        if found[2] not in self.managed:
            return 404, _error(404, "notFound", "there is no such constraint")
        return 200, {"name": path, "spec": {"rules": [self.managed[found[2]]]}}

    def _page(self, query: Mapping[str, str]) -> dict[str, Any]:
        """A page of instances.aggregatedList, of the machines that have the label of the filter."""
        wanted = re.fullmatch(r"labels\.([\w-]+):\*", query["filter"])
        assert wanted, query
        paths = [path for path, one in self.instances.items() if wanted[1] in one.get("labels", {})]
        begin = int(query.get("pageToken", 0))
        end = begin + min(self.page, int(query["maxResults"]))
        more = {"nextPageToken": str(end)} if end < len(paths) else {}
        return {"items": self._by_zone(paths[begin:end]), **more}

    def _by_zone(self, paths: list[str]) -> dict[str, Any]:
        """Machines, as instances.aggregatedList groups them."""
        zones: dict[str, Any] = {}
        for path in paths:
            instance = self.instances[path]
            zone = path.partition("/zones/")[2].partition("/")[0]
            link = f"https://www.googleapis.com/compute/v1/{path}"
            shown = {**instance, "selfLink": link, "zone": f"{link}/zones/{zone}"}
            zones.setdefault(f"zones/{zone}", {"instances": []})["instances"].append(shown)
        present = {zone: one for zone, one in zones.items() if zone not in self.unreachables}
        left_out = {zone: {"warning": {"code": "UNREACHABLE"}} for zone in self.warned}
        empty = {"zones/nowhere1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        return {**empty, **present, **left_out}

    def _call(self, method: str, path: str) -> tuple[str, str, str]:
        for call, described in self.calls.items():
            shape = re.sub(r"\{\w+\}", "[^/]+", described["path"])
            if described["httpMethod"] == method and re.fullmatch(shape, path):
                id = described["id"]
                assert id in rights.CALLS, f"{id}: its permission is not declared"
                resource, _, name = call.partition(".")
                last = path.rpartition("/")
                return resource, name, last[0] if last[2] == name else path
        raise AssertionError(f"Compute has no call {method} {path}")

    def _change(self, name: str, at: str, instance: dict[str, Any], body: Any) -> tuple[int, Any]:
        error = None
        if at in self.protected:
            return 403, _error(403, "forbidden")
        if name == "setScheduling":
            unknown = body.keys() - self.schemas["Scheduling"]["properties"].keys()
            if unknown or instance["status"] not in ("TERMINATED", "STOPPED"):
                return 400, _error(400, "resourceNotReady")
            if wrong := stop_action_error(body, local_ssd=has_local_ssd(instance)):
                return 400, _error(400, "invalid", wrong)
            instance["scheduling"] = body
        elif name == "stop" or name == "delete":
            instance["status"] = "STOPPING"
        elif error := self.errors.get(instance["name"]):
            instance["status"] = "TERMINATED"
        else:
            instance["status"] = "STAGING"
        number = f"operation-{len(self.operations)}"
        zone = at.partition("/instances/")[0]
        self.operations[f"{zone}/operations/{number}"] = {
            "name": number,
            "selfLink": f"https://www.googleapis.com/compute/v1/{zone}/operations/{number}",
            "status": "RUNNING",
            "left": self.slow,
            "deletes": at if name == "delete" else "",
            "end": {"error": {"errors": [error]}} if error else {},
        }
        return 200, _shown(self.operations[f"{zone}/operations/{number}"])

    def _operation(self, at: str) -> dict[str, Any]:
        operation = self.operations[at]
        operation["left"] -= 1
        if operation["left"] <= 0:
            self._end(at)
        return _shown(operation)

    def _end(self, at: str) -> None:
        operation = self.operations[at]
        deleted = operation["deletes"]
        operation |= {"status": "DONE", "deletes": ""} | operation["end"]  # once: a path may return
        if self.instances.pop(deleted, None):
            self.ended(deleted)

    @property
    def root(self) -> str:
        """The address of the other APIs."""
        return self.base.removesuffix("compute/v1/")

    def serve(self) -> ThreadingHTTPServer:
        """Start serving."""
        server = start(self._answer_call)
        self.base = f"{address(server)}/compute/v1/"
        return server

    def _answer_call(self, call: Call) -> Answer:
        if call.target == "/token":  # of a service account, for programs that are started
            return 200, {"access_token": "t-1", "expires_in": 3600}
        path, _, query = call.target.partition("?")
        path = path.removeprefix("/compute/v1/").removeprefix("/")
        return self.answer(call.method, path, call.body, dict(parse_qsl(query)))


def _shown(operation: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in operation.items() if key not in ("left", "end", "deletes")}


def _error(status: int, reason: str, message: str = "refused") -> dict[str, Any]:
    return error(status, reason, message)
