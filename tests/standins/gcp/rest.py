"""What the stacks ask of Google's REST APIs, beside Compute.

A request without the token or the project that pays ends with 401.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from google.protobuf import json_format

from .compute import Compute
from .discovery import Request, Wrong
from .server import Answer, Call, error

TOKEN = "ya29.of-a-test"
PREFERENCES = "cloudquotas.projects.locations.quotaPreferences.list"
REQUEST = "cloudquotas.projects.locations.quotaPreferences.patch"
# Cloud Quotas has no discovery document in the package.
QUOTAS = re.compile(
    r"v1/projects/(?P<project>[^/]+)/locations/global/quotaPreferences/?(?P<name>.*)"
)
KNOWN = {
    PREFERENCES: {"pageSize", "pageToken", "filter", "orderBy"},
    REQUEST: {"updateMask", "allowMissing", "validateOnly", "ignoreSafetyChecks"},
}
CLUSTER_ID = "0a1b2c3d4e5f"  # of the stack under test, as tests/stacks/mocks.py has it
OWN = {"railhead-cluster": "t4", "railhead-id": CLUSTER_ID}


def machines(
    states: Mapping[str, str], zone: str = "us-central1-a", labels: Mapping[str, str] = OWN
) -> dict[str, dict[str, Any]]:
    """Machines by path, from their names and states; of the stack under test by these labels."""
    place = f"projects/p-12345/zones/{zone}/instances"
    return {
        f"{place}/{name}": {"name": name, "status": state, "labels": {**labels}}
        for name, state in states.items()
    }


@dataclass
class Rest(Compute):
    """A project, as the APIs show it."""

    quotas: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    calls: Mapping[str, str] | None = None
    project: str = "p-12345"
    off: set[str] = field(default_factory=set)  # APIs that are not enabled
    permissions: set[str] = field(default_factory=set)
    users: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    preferences: list[dict[str, Any]] = field(default_factory=list)  # requests for quotas

    def refuses(self, call: Call) -> Answer | None:
        """As Compute."""
        if call.headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, error(401, "no token")
        if call.headers["X-Goog-User-Project"] != self.project:
            return 401, error(401, "no project pays")
        return None

    def find(self, api: str, verb: str, target: str, body: Any) -> Request:
        """As Compute."""
        if api != "cloudquotas":
            return super().find(api, verb, target, body)
        path, _, query = target.partition("?")
        method, match = REQUEST if verb == "PATCH" else PREFERENCES, QUOTAS.fullmatch(path)
        options = dict(parse.parse_qsl(query))
        if not match or options.keys() - KNOWN[method]:
            raise Wrong(f"there is no {verb} {target}")
        return Request(method, {**options, **match.groupdict()}, body or {})

    def other(self, request: Request) -> Answer:
        """As Compute."""
        if request.method == "cloudresourcemanager.projects.testIamPermissions":
            allowed = self.permissions & {*request.body["permissions"]}
            return 200, {"permissions": sorted(allowed)} if allowed else {}  # as Google has it
        if request.method == REQUEST:
            return 200, self._request(request.body, request.params)
        if request.method == PREFERENCES:
            page = self._page(request, "", [("", preference) for preference in self.preferences])
            return 200, {"quotaPreferences" if k == "items" else k: v for k, v in page.items()}
        if request.method == "serviceusage.services.batchGet":
            return 200, self._services(request.params)
        if request.method == "oslogin.users.getLoginProfile":
            return 200, self._profile(request.params)
        return super().other(request)

    def _services(self, params: Mapping[str, str]) -> Any:
        names = params["names"].split("\n")  # a parameter that is there several times
        return {
            "services": [
                {"name": name, "state": "DISABLED" if _last(name) in self.off else "ENABLED"}
                for name in names
            ]
        }

    def _request(self, body: Any, params: Mapping[str, str]) -> Any:
        """Cloud Quotas has one for a quota and its dimensions, and changes no dimensions."""
        from google.cloud import cloudquotas_v1  # it takes a second to load

        known: Any = cloudquotas_v1.QuotaPreference
        json_format.ParseDict(body, known.pb()())
        assert body["contactEmail"], "an increase needs it"
        assert params["allowMissing"] == "true" and "updateMask" not in params
        assert body["name"].endswith(f"/quotaPreferences/{params['name']}")
        keys = ("service", "quotaId", "dimensions")
        same = [each for each in self.preferences if all(each[key] == body[key] for key in keys)]
        named = [each for each in self.preferences if each["name"] == body["name"]]
        assert same == named, "there is one for this quota, or this name is that of another"
        kept = same[0] if same else {"quotaConfig": {}}
        kept |= {key: body[key] for key in ("name", *keys)}
        kept["quotaConfig"] |= body["quotaConfig"]
        self.preferences = [*(each for each in self.preferences if each is not kept), kept]
        return {**kept, "reconciling": True}

    def _profile(self, params: Mapping[str, str]) -> Any:
        return {
            "name": "1",
            "posixAccounts": [{"username": user} for user in self.users],
            "sshPublicKeys": {str(n): {"key": key} for n, key in enumerate(self.keys)},
        }


def _last(name: str) -> str:
    return name.rpartition("/")[2]
