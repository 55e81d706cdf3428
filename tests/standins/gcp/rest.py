"""What the stacks ask of Google's REST APIs, served on this machine.

Every request is held to Google's own descriptions: a path, a method or a parameter that is not in
them ends with 400, one without the token or the project that pays with 401.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from google.protobuf import json_format

from . import server
from .discovery import DOCUMENTS
from .server import Answer, Call

APIS = ("compute", "serviceusage", "cloudresourcemanager", "oslogin")
OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
TOKEN = "ya29.of-a-test"
PREFERENCES = "cloudquotas.projects.locations.quotaPreferences.list"
REQUEST = "cloudquotas.projects.locations.quotaPreferences.patch"
CLUSTER_ID = "0a1b2c3d4e5f"  # of the stack under test, as tests/stacks/mocks.py has it
T4 = "nvidia-tesla-t4"
# Where n1 is, unless a test says otherwise: n1 is not in every zone.
N1 = [f"us-central1-{letter}" for letter in "abcf"] + ["us-east1-c", "us-east7-a", "us-west1-a"]


@dataclass
class Rest:
    """A project, as the APIs show it. `zones` are those of a machine type or GPU type; a method
    in `refused` answers with that status."""

    project: str = "p-12345"
    off: set[str] = field(default_factory=set)  # APIs that are not enabled
    quotas: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    zones: dict[str, list[str]] = field(default_factory=lambda: {T4: ["us-central1-a"]})
    instances: dict[str, str] = field(default_factory=dict)  # of this stack, with their status
    cluster: str = "t4"  # of these
    others: dict[str, dict[str, str]] = field(default_factory=dict)  # of other stacks: their labels
    zone: str = "us-central1-a"  # of all
    permissions: set[str] = field(default_factory=set)
    users: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    preferences: list[dict[str, Any]] = field(default_factory=list)  # requests for quotas
    families: Mapping[str, str] = field(default_factory=dict)  # of images, with their state
    refused: dict[str, int] = field(default_factory=dict)  # by method, as in compute.regions.get

    def answer(self, method: str, params: Mapping[str, str], body: Any) -> tuple[int, Any]:
        """The status and the JSON of a call of a REST method."""
        if method in self.refused:
            return self.refused[method], _error(self.refused[method], f"{method} is refused")
        answers: dict[str, Callable[[Mapping[str, str]], Any]] = {
            "serviceusage.services.batchGet": self._services,
            "compute.projects.get": lambda _: self._quotas("global"),
            "compute.regions.get": lambda params: self._quotas(params["region"]),
            "compute.instances.list": self._instances,
            "compute.instances.aggregatedList": self._machines,
            "compute.acceleratorTypes.aggregatedList": lambda p: self._types("acceleratorTypes", p),
            "compute.machineTypes.aggregatedList": lambda p: self._types("machineTypes", p),
            "compute.images.list": self._images,
            "oslogin.users.getLoginProfile": self._profile,
            PREFERENCES: self._preferences,
            REQUEST: functools.partial(self._request, body),
        }
        if method == "cloudresourcemanager.projects.testIamPermissions":
            return 200, {"permissions": sorted(self.permissions & set(body["permissions"]))}
        if method not in answers:
            return 400, _error(400, f"the stand-in does not know {method}")
        return 200, answers[method](params)

    def _services(self, params: Mapping[str, str]) -> Any:
        names = params["names"].split("\n")  # a parameter that is there several times
        return {
            "services": [
                {"name": name, "state": "DISABLED" if _last(name) in self.off else "ENABLED"}
                for name in names
            ]
        }

    def _quotas(self, place: str) -> Any:
        rows = self.quotas.get(place, {})
        return {
            "quotas": [
                {"metric": metric, "limit": limit, "usage": used}
                for metric, (limit, used) in rows.items()
            ]
        }

    def _instances(self, params: Mapping[str, str]) -> Any:
        return {"items": self._labelled(params["filter"])}

    def _machines(self, params: Mapping[str, str]) -> Any:
        listed = self._labelled(params["filter"])
        return {"items": {f"zones/{self.zone}": {"instances": listed}} if listed else {}}

    def _labelled(self, wanted: str) -> list[dict[str, Any]]:
        """The machines that pass a filter by a label."""
        match = re.fullmatch(r"labels\.(railhead-(?:cluster|id))=([\w-]+)", wanted)
        assert match, wanted
        own = {"railhead-cluster": self.cluster, "railhead-id": CLUSTER_ID}
        machines: list[dict[str, Any]] = [
            {"name": n, "status": s, "labels": own} for n, s in self.instances.items()
        ]
        machines += [{"name": n, "status": "RUNNING", "labels": x} for n, x in self.others.items()]
        return [one for one in machines if one["labels"].get(match[1]) == match[2]]

    def _types(self, kind: str, params: Mapping[str, str]) -> Any:
        """Two pages, and zones without any, as Compute has them."""
        name = params["filter"].removeprefix("name=")
        every = [f"zones/{zone}" for zone in self.zones.get(name, N1 if "n1-" in name else ())]
        if "pageToken" not in params:
            empty = {"zones/nowhere1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
            first = {zone: _listed(kind, name) for zone in every[:1]}
            return {"items": {**empty, **first}, "nextPageToken": "2"}
        return {"items": {zone: _listed(kind, name) for zone in every[1:]}}

    def _images(self, params: Mapping[str, str]) -> Any:
        """Compute lists deprecated images, too."""
        states = {f: {"deprecated": {"state": s}} if s else {} for f, s in self.families.items()}
        return {"items": [{"family": family, **state} for family, state in states.items()]}

    def _preferences(self, params: Mapping[str, str]) -> Any:
        """Two pages."""
        if "pageToken" not in params:
            return {"quotaPreferences": self.preferences[:1], "nextPageToken": "2"}
        return {"quotaPreferences": self.preferences[1:]}

    def _request(self, body: Any, params: Mapping[str, str]) -> Any:
        """Cloud Quotas has one for a quota and its dimensions, and changes no dimensions."""
        from google.cloud import cloudquotas_v1  # it takes a second to load

        known: Any = cloudquotas_v1.QuotaPreference
        json_format.ParseDict(body, known.pb()())
        assert body["contactEmail"], "an increase needs it"
        assert params["allowMissing"] == "true" and "updateMask" not in params
        assert body["name"].endswith(f"/quotaPreferences/{params['name']}")
        what = ("service", "quotaId", "dimensions")
        same = [one for one in self.preferences if all(one[key] == body[key] for key in what)]
        named = [one for one in self.preferences if one["name"] == body["name"]]
        assert same == named, "there is one for this quota, or this name is that of another"
        kept = same[0] if same else {"quotaConfig": {}}
        kept |= {key: body[key] for key in ("name", *what)}
        kept["quotaConfig"] |= body["quotaConfig"]
        self.preferences = [*(one for one in self.preferences if one is not kept), kept]
        return {**kept, "reconciling": True}

    def _profile(self, params: Mapping[str, str]) -> Any:
        return {
            "name": "1",
            "posixAccounts": [{"username": user} for user in self.users],
            "sshPublicKeys": {str(n): {"key": key} for n, key in enumerate(self.keys)},
        }


def _listed(kind: str, name: str) -> dict[str, Any]:
    cards = {"maximumCardsPerInstance": 4} if kind == "acceleratorTypes" else {}
    return {kind: [{"name": name, **cards}]}


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@contextmanager
def serving(rest: Rest) -> Iterator[dict[str, str]]:
    """The environment by which programs ask this one, while the block runs."""
    with server.serving(lambda call: _answer(rest, call)) as base:
        found = {f"{OVERRIDE}{api.upper()}": f"{base}/{api}/" for api in (*APIS, "cloudquotas")}
        yield {**found, f"{OVERRIDE}COMPUTE": f"{base}/compute/compute/v1/"}


def _answer(rest: Rest, call: Call) -> Answer:
    if call.headers["Authorization"] != f"Bearer {TOKEN}":
        return 401, _error(401, "no token")
    if call.headers["X-Goog-User-Project"] != rest.project:
        return 401, _error(401, "no project pays")
    path, _, query = call.target.partition("?")
    api, path = path.strip("/").split("/", 1)
    given = {key: "\n".join(values) for key, values in parse.parse_qs(query).items()}
    for id, (verb, pattern, known) in _methods().items():
        if verb != call.method or not id.startswith(f"{api}."):
            continue
        if matched := compiled(pattern).fullmatch(path):
            strange = given.keys() - known
            if strange:
                return 400, _error(400, f"{id} has no parameter {', '.join(strange)}")
            return rest.answer(id, {**given, **matched.groupdict()}, call.body)
    return 400, _error(400, f"there is no {call.method} {call.target}")


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    """`re` keeps 512 patterns, and the APIs have some thousand."""
    return re.compile(pattern)


@functools.cache
def _methods() -> dict[str, tuple[str, str, set[str]]]:
    """Every method of the APIs by id: its verb, the pattern of its path, its parameters."""
    found = {}
    for api in APIS:
        document = json.loads((DOCUMENTS / f"{api}.v1.json").read_text())
        for method in _every_method(document):
            path = method.get("flatPath", method["path"])
            base = str(document.get("servicePath", ""))
            pattern = re.sub(
                r"\\{(\w+)\\}", r"(?P<\1>(?:[^/:]+[.][^/:]+:)?[^/:]+)", re.escape(base + path)
            )
            known = {*method.get("parameters", {}), *document["parameters"]}
            found[method["id"]] = (method["httpMethod"], pattern, known)
    # Cloud Quotas has no discovery document in the package.
    listed = r"v1/projects/(?P<project>[^/]+)/locations/global/quotaPreferences"
    found[PREFERENCES] = ("GET", listed, {"pageSize", "pageToken", "filter", "orderBy"})
    changed = {"updateMask", "allowMissing", "validateOnly", "ignoreSafetyChecks"}
    found[REQUEST] = ("PATCH", rf"{listed}/(?P<name>[^/]+)", changed)
    return found


def _every_method(document: Mapping[str, Any]) -> Iterator[Any]:
    yield from document.get("methods", {}).values()
    for resource in document.get("resources", {}).values():
        yield from _every_method(resource)
