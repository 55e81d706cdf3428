"""Compute Engine, served on this machine: machines and other resources, lists, quotas.

Every call is held against Google's own discovery document: one that is not in it ends with 400. As
Google's, lists come in pages, pass a filter, have zones without resources, and zones out of reach;
an operation takes its time. What the machines do is moved by the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from http.server import ThreadingHTTPServer
from typing import Any

from standins.gcp.discovery import Request, Wrong, document, find
from standins.gcp.server import Answer, Call, address, error, start

from bootstrap.clouds.gcp import rights

OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
LINK = "https://www.googleapis.com/compute/v1/"
T4 = "nvidia-tesla-t4"
# Where n1 is, unless a test says otherwise: n1 is not in every zone.
N1 = [f"us-central1-{letter}" for letter in "abcf"] + ["us-east1-c", "us-east7-a", "us-west1-a"]
Body = dict[str, Any]

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
    """All projects. `errors` are those of the next operations that start a machine, by its name;
    `refused` the status and reason of a method, also of one in a project."""

    instances: dict[str, Body] = field(default_factory=dict)  # by path below compute/v1
    resources: dict[str, Body] = field(default_factory=dict)  # of all other kinds
    zones: dict[str, list[str]] = field(default_factory=lambda: {T4: ["us-central1-a"]})  # of types
    families: Mapping[str, str] = field(default_factory=dict)  # of images, with their state
    quotas: dict[str, dict[str, tuple[float, float]]] = field(
        default_factory=lambda: {"global": {"NETWORKS": (5.0, 1.0)}}
    )
    attributes: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    errors: dict[str, Body] = field(default_factory=dict)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    denied: tuple[int, str] | None = None  # the same of all methods
    protected: set[str] = field(default_factory=set)  # machines whose changes are refused
    unreachables: tuple[str, ...] = ()  # zones that a list of all machines names and leaves out
    warned: tuple[str, ...] = ()  # zones that lists have with a warning instead of resources
    page: int = 1  # resources on a page of a list
    slow: int = 1  # how many requests an operation takes until it is done
    operations: dict[str, Body] = field(default_factory=dict)
    ended: Callable[[str], None] = lambda path: None  # sees each machine that is deleted
    deleted: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    address: str = ""  # once it is served
    calls: Mapping[str, str] | None = field(default_factory=lambda: rights.CALLS)  # None: all

    @property
    def base(self) -> str:
        """Where the paths of Compute begin."""
        return f"{self.address}/compute/compute/v1/"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which programs ask this one."""
        apis = ("cloudresourcemanager", "iam", "orgpolicy", "oslogin", "serviceusage")
        variables = {f"{OVERRIDE}{api.upper()}": f"{self.address}/{api}/" for api in apis}
        variables[f"{OVERRIDE}CLOUDQUOTAS"] = f"{self.address}/cloudquotas/"
        variables[f"{OVERRIDE}STORAGE"] = f"{self.address}/storage/storage/v1/"
        return {**variables, f"{OVERRIDE}COMPUTE": self.base}

    def add(self, path: str, **options: Any) -> str:
        """A resource at projects/P/zones/Z/KIND/N, a machine that runs; the path."""
        created = "2026-11-20T10:00:00.000-08:00"
        known = {"name": path.rpartition("/")[2], "selfLink": LINK + path}
        if path.split("/")[-2] != "instances":
            self.resources[path] = {**known, "creationTimestamp": created, **options}
            return path
        now = datetime.now(timezone.utc)
        card = {"networkIP": "10.164.0.8", "accessConfigs": [{"natIP": "198.51.100.99"}]}
        discards: Body = {"onInstanceStopAction": {"discardLocalSsd": True}}
        scheduling: Body = {
            "onHostMaintenance": "TERMINATE",
            "automaticRestart": False,
            "instanceTerminationAction": "STOP",
            "maxRunDuration": {"seconds": "14400"},
        }
        self.instances[path] = {
            **known,
            "id": "4711",
            "status": "RUNNING",
            "zone": f"{LINK}{path.partition('/instances/')[0]}",
            "networkInterfaces": [card],
            "creationTimestamp": created,
            "lastStartTimestamp": (now - timedelta(hours=1)).isoformat(),
            "scheduling": scheduling | (discards if has_local_ssd(options) else {}),
        } | options
        return path

    def settle(self) -> None:
        """Complete all starts and stops."""
        now = datetime.now(timezone.utc).isoformat()
        for instance in self.instances.values():
            if instance["status"] == "STAGING":
                instance |= {"status": "RUNNING", "lastStartTimestamp": now}
            elif instance["status"] == "STOPPING":
                instance |= {"status": "TERMINATED", "lastStopTimestamp": now}
        for path in self.operations:
            self._end(path)

    def answer(self, request: Request) -> Answer:
        """The status and the JSON of one call."""
        whose = (request.method, f"{request.method} {request.params.get('project', '')}")
        refused = [self.refused[name] for name in whose if name in self.refused]
        for status, reason in [*([self.denied] if self.denied else ()), *refused]:
            return status, error(status, reason)
        api, *_, kind, name = request.method.split(".")
        if api != "compute":
            return self.other(request)
        if kind in ("projects", "regions"):
            return self._quotas(request.params)
        if name in ("list", "aggregatedList"):
            return 200, self._page(request, kind, self._listed(request, kind))
        path = document("compute").methods[request.method]["path"]
        target = (path if path.endswith("}") else path.rpartition("/")[0]).format(**request.params)
        if kind == "zoneOperations":
            return 200, self._operation(target)
        if kind != "instances":
            return self._resource(name, kind, target)
        if name == "get":  # whoever looks: a deletion continues although nobody asks for it
            self._go_on()
        if target not in self.instances:
            return 404, error(404, "notFound")
        if name == "get":
            return 200, self.instances[target]
        if name == "getGuestAttributes":
            items = self.attributes.get(target)
            answer = (200, {"queryValue": {"items": items}})
            return answer if items else (404, error(404, "notFound"))
        return self._change(name, target, request)

    def other(self, request: Request) -> Answer:
        """The answer of another API."""
        return 400, error(400, "badRequest", f"the stand-in does not know {request.method}")

    def _quotas(self, params: Mapping[str, str]) -> Answer:
        place = params.get("region", "global")
        rows = self.quotas.get(place, {}).items()
        listed = [{"metric": m, "limit": limit, "usage": used} for m, (limit, used) in rows]
        return 200, {"name": params["project"], "quotas": listed}

    def _resource(self, name: str, kind: str, path: str) -> Answer:
        ssd = {"sizeGb": "100", "type": f"{LINK}{path.partition('/disks/')[0]}/diskTypes/pd-ssd"}
        resource = self.resources.get(path) or (ssd if (kind, name) == ("disks", "get") else None)
        if resource is None:
            return 404, error(404, "notFound")
        if name == "get":
            return 200, resource
        if name != "delete":
            raise Wrong(f"the stand-in does not {name} {kind}")
        if any(str(each.get("network")).endswith(path) for each in self.resources.values()):
            return 400, error(400, "resourceInUseByAnotherResource")
        del self.resources[path]
        self.deleted.append(path)
        return 200, {}

    def _listed(self, request: Request, kind: str) -> list[tuple[str, Body]]:
        """What a list has, each with its zone or region, or ""."""
        condition = request.params.get("filter", "")
        if kind == "images":  # also deprecated ones
            states = {
                f: {"deprecated": {"state": s}} if s else {} for f, s in self.families.items()
            }
            return [("", {"family": family, **state}) for family, state in states.items()]
        if kind in ("acceleratorTypes", "machineTypes"):
            name = condition.removeprefix("name=")
            cards = {"maximumCardsPerInstance": 4} if kind == "acceleratorTypes" else {}
            zones = self.zones.get(name, N1 if "n1-" in name else ())
            return [(f"zones/{zone}", {"name": name, **cards}) for zone in zones]
        if kind == "instances":
            self._go_on()
        listed = []
        for path, resource in {**self.instances, **self.resources}.items():
            _, project, scope, *place, of_kind, _ = path.split("/")
            where = f"{scope}/{place[0]}" if place else ""
            there = request.params.get("zone", *place or [""]) == (place or [""])[0]
            of_list = (project, of_kind) == (request.params["project"], kind)
            if of_list and there and passes(condition, resource):
                listed.append((where, resource))
        return [each for each in listed if each[0] not in self.unreachables]

    def _page(self, request: Request, kind: str, every: list[tuple[str, Body]]) -> Body:
        begin = int(request.params.get("pageToken", 0))
        end = begin + min(self.page, int(request.params.get("maxResults", 500)))
        more = {"nextPageToken": str(end)} if end < len(every) else {}
        items = every[begin:end]
        if request.method.endswith(".list"):
            listed = [item for _, item in items]
            return {**({"items": listed} if listed else {}), **more}
        scopes: Body = {"zones/nowhere1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        for where, item in items:
            scopes.setdefault(where, {kind: []})[kind].append(item)
        for zone in () if more else self.warned:
            scopes[zone] = {"warning": {"code": "UNREACHABLE"}}
        left_out = {"unreachables": [*self.unreachables]} if self.unreachables else {}
        return {"items": scopes, **left_out, **more}

    def _change(self, name: str, target: str, request: Request) -> Answer:
        instance, error_ = self.instances[target], None
        if target in self.protected:
            return 403, error(403, "forbidden", "refused")
        if name == "stop" and has_local_ssd(instance) and "discardLocalSsd" not in request.params:
            return 400, error(400, "badRequest", NO_DISCARD)
        if name == "setScheduling":
            if instance["status"] not in ("TERMINATED", "STOPPED"):
                return 400, error(400, "resourceNotReady")
            if wrong := stop_action_error(request.body, local_ssd=has_local_ssd(instance)):
                return 400, error(400, "invalid", wrong)
            instance["scheduling"] = request.body
        elif name in ("stop", "delete"):
            instance["status"] = "STOPPING"
        elif error_ := self.errors.get(instance["name"]):
            instance["status"] = "TERMINATED"
        else:
            instance["status"] = "STAGING"
        number = f"operation-{len(self.operations)}"
        path = f"{target.partition('/instances/')[0]}/operations/{number}"
        self.operations[path] = {
            "name": number,
            "selfLink": LINK + path,
            "status": "RUNNING",
            "left": self.slow,
            "deletes": target if name == "delete" else "",
            "end": {"error": {"errors": [error_]}} if error_ else {},
        }
        return 200, _shown(self.operations[path])

    def _go_on(self) -> None:
        for path in [path for path, operation in self.operations.items() if operation["deletes"]]:
            self._operation(path)

    def _operation(self, path: str) -> Body:
        operation = self.operations[path]
        operation["left"] -= 1
        if operation["left"] <= 0:
            self._end(path)
        return _shown(operation)

    def _end(self, path: str) -> None:
        operation = self.operations[path]
        deleted = operation["deletes"]
        operation |= {"status": "DONE", "deletes": ""} | operation["end"]  # once: a path may return
        if self.instances.pop(deleted, None):
            self.deleted.append(deleted)
            self.ended(deleted)

    def refuses(self, call: Call) -> Answer | None:
        """Why a call is not looked at."""
        return None

    def serve(self) -> ThreadingHTTPServer:
        """Start serving."""
        server = start(self.answer_call)
        self.address = address(server)
        return server

    @contextmanager
    def served(self) -> Iterator[dict[str, str]]:
        """The environment by which programs ask this one, while the block runs."""
        server = self.serve()
        try:
            yield self.environment
        finally:
            server.shutdown()
            server.server_close()

    def answer_call(self, call: Call) -> Answer:
        """The answer to a call at /API/PATH."""
        if call.target == "/token":  # of a service account, for programs that are started
            return 200, {"access_token": "t-1", "expires_in": 3600}
        if refusal := self.refuses(call):
            return refusal
        api, _, target = call.target.lstrip("/").partition("/")
        self.requests.append(
            f"{call.method} {target.partition('?')[0].removeprefix('compute/v1/')}"
        )
        try:
            request = self.find(api, call.method, target, call.body)
        except Wrong as wrong:
            return 400, error(400, "badRequest", str(wrong))
        assert self.calls is None or request.method in self.calls, (
            f"{request.method}: no permission"
        )
        return self.answer(request)

    def find(self, api: str, verb: str, target: str, body: Any) -> Request:
        """The request that a call is."""
        return find(api, verb, target, body)


def passes(condition: str, resource: Mapping[str, Any]) -> bool:
    """Whether a resource passes the filter of a list."""
    if not condition:
        return True
    label = re.fullmatch(r"labels\.([\w-]+)(?::\*|=([\w-]+))", condition)
    if not label:
        raise Wrong(f"the stand-in does not know the filter {condition}")
    value = resource.get("labels", {}).get(label[1])
    return value is not None and label[2] in (None, value)


def _shown(operation: Body) -> Body:
    return {key: value for key, value in operation.items() if key not in ("left", "end", "deletes")}
