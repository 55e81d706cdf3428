"""Google's lists of resources, and their removal: IAM, Cloud Storage, Resource Manager, and its
policies, beside Compute. A network with firewall rules or subnets is not removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from standins.gcp.compute import Body, Compute
from standins.gcp.discovery import Request, Wrong
from standins.gcp.server import Answer, error


@dataclass
class Lists(Compute):
    """All projects, and of each the same permissions and policies."""

    calls: Mapping[str, str] | None = None
    projects: list[str] = field(default_factory=list)
    accounts: dict[str, Body] = field(default_factory=dict)  # by name
    buckets: dict[str, Body] = field(default_factory=dict)  # by name
    objects: dict[str, list[Body]] = field(default_factory=dict)  # by bucket
    missing: set[str] = field(default_factory=set)  # permissions that the caller lacks
    policies: dict[str, Any] = field(default_factory=dict)  # of the organisation
    managed: dict[str, Any] = field(default_factory=dict)  # rules of managed constraints
    no_policies: str = ""  # why Google does not show them

    def other(self, request: Request) -> Answer:
        """As Compute."""
        method = request.method.removeprefix("cloudresourcemanager.")
        if method == "projects.testIamPermissions":
            assert len(request.body["permissions"]) <= 100, "Google takes at most 100"
            allowed = {*request.body["permissions"]} - self.missing
            return 200, {"permissions": sorted(allowed)} if allowed else {}  # as Google has it
        if "olic" in method and self.no_policies:
            return 403, error(403, "forbidden", self.no_policies)
        if method == "projects.getEffectiveOrgPolicy":
            name = request.body["constraint"].removeprefix("constraints/")
            return 200, self.policies.get(name, {})
        if method == "orgpolicy.projects.policies.getEffectivePolicy":
            rule = self.managed.get(request.params["name"].rpartition("/")[2])
            policy = {"name": request.params["name"], "spec": {"rules": [rule]}}
            return (200, policy) if rule is not None else (404, error(404, "notFound"))
        kind, name = method.split(".")[-2:]
        if name == "list":
            key = {"serviceAccounts": "accounts", "projects": "projects"}.get(kind, "items")
            page = self._page(
                request, kind, [("", other) for other in self._others(kind, request.params)]
            )
            return 200, {key if k == "items" else k: value for k, value in page.items()}
        if (kind, name) == ("buckets", "get"):
            bucket = self.buckets.get(request.params["bucket"])
            return (200, bucket) if bucket else (404, error(404, "notFound"))
        if name == "delete":
            return self._delete(kind, request.params)
        return super().other(request)

    def _others(self, kind: str, params: Any) -> list[Body]:
        if kind == "projects":
            return [{"projectId": name, "lifecycleState": "ACTIVE"} for name in self.projects]
        if kind == "serviceAccounts":
            project = params["name"].removeprefix("projects/")
            return [a for a in self.accounts.values() if a["projectId"] == project]
        if kind == "objects":
            return self.objects.get(params["bucket"], [])
        if kind != "buckets":
            raise Wrong(f"the stand-in does not list {kind}")
        buckets = [b for b in self.buckets.values() if b["project"] == params["project"]]
        return [{k: v for k, v in bucket.items() if k != "project"} for bucket in buckets]

    def _delete(self, kind: str, params: Any) -> Answer:
        owner, name = (
            (self.buckets, params["bucket"])
            if kind == "buckets"
            else (self.accounts, params["name"])
        )
        if self.objects.get(name):
            return 409, error(409, "conflict")
        if owner.pop(name, None) is None:
            return 404, error(404, "notFound")
        self.deleted.append(name)
        return (204, None) if kind == "buckets" else (200, {})
