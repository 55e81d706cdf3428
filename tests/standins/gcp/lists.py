"""Google's lists of resources, and their removal: Compute Engine, IAM, Cloud Storage and Resource
Manager, served on this machine.

Every call is held against Google's own discovery documents. As Google's, lists come in pages, a
list by zones also has zones without resources, and a zone or a bucket's location may be out of
reach. A network with firewall rules or subnets is not removed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from standins.gcp import server
from standins.gcp.discovery import Request, check, document
from standins.gcp.rest import OVERRIDE
from standins.gcp.server import error

APIS = {"compute": "compute/v1/", "iam": "", "storage": "storage/v1/", "cloudresourcemanager": ""}
ZONAL = ("instances", "disks", "addresses", "subnetworks")
Body = dict[str, Any]


@dataclass
class Lists:
    """All projects. `unreachable` are zones; `refused` the status and reason of a method."""

    projects: list[str] = field(default_factory=list)
    resources: dict[str, Body] = field(default_factory=dict)  # by path below compute/v1
    accounts: dict[str, Body] = field(default_factory=dict)  # by name
    buckets: dict[str, Body] = field(default_factory=dict)  # by name
    objects: dict[str, list[Body]] = field(default_factory=dict)  # by bucket
    unreachable: set[str] = field(default_factory=set)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    page: int = 2  # resources on a page
    deleted: list[str] = field(default_factory=list)
    base: str = ""

    def add(self, path: str, **values: Any) -> str:
        """A resource of Compute at a path; the path."""
        link = f"https://www.googleapis.com/compute/v1/{path}"
        name = path.rpartition("/")[2]
        created = "2026-11-20T10:00:00.000-08:00"
        self.resources[path] = {
            "name": name, "selfLink": link, "creationTimestamp": created, **values
        }  # fmt: skip
        return path

    def answer(self, verb: str, target: str) -> tuple[int, Any]:
        """The status and the JSON of a call."""
        path, query = urlsplit(target).path.strip("/"), dict(parse_qsl(urlsplit(target).query))
        api, _, path = path.partition("/")
        method, params = _method(api, verb, path)
        check(Request(method, {**params, **query}, {}))
        for refused in (method, f"{method} {params.get('project', '')}"):
            if refused in self.refused:
                status, reason = self.refused[refused]
                return status, error(status, reason)
        if verb == "DELETE":
            return self._delete(api, path)
        if method == "storage.buckets.get":
            bucket = self.buckets.get(params["bucket"])
            return (200, bucket) if bucket else (404, error(404, "notFound"))
        every = self._listed(method, params, query)
        start = int(query.get("pageToken", 0))
        more = {"nextPageToken": str(start + self.page)} if every[start + self.page :] else {}
        return 200, {**self._page(method, every[start : start + self.page], more == {}), **more}

    def _listed(self, method: str, params: Body, query: Body) -> list[Any]:
        kind = method.split(".")[-2]
        if method == "cloudresourcemanager.projects.list":
            return [{"projectId": name, "lifecycleState": "ACTIVE"} for name in self.projects]
        if kind == "serviceAccounts":
            project = params["name"].removeprefix("projects/")
            return [one for one in self.accounts.values() if one["projectId"] == project]
        if kind == "buckets":
            return [one for one in self.buckets.values() if one["project"] == query["project"]]
        if kind == "objects":
            return self.objects.get(params["bucket"], [])
        start = f"projects/{params['project']}/"
        own = [p for p in self.resources if p.startswith(start) and p.split("/")[-2] == kind]
        if label := query.get("filter"):
            key = label.removeprefix("labels.").removesuffix(":*")
            own = [p for p in own if key in self.resources[p].get("labels", {})]
        return own

    def _page(self, method: str, items: list[Any], last: bool) -> Body:
        kind = method.split(".")[-2]
        if method == "cloudresourcemanager.projects.list":
            return {"projects": items}
        if kind == "serviceAccounts":
            return {"accounts": items} if items else {}
        if kind == "buckets":
            shown = [{k: v for k, v in one.items() if k != "project"} for one in items]
            return {"items": shown} if items else {}
        if kind == "objects":
            return {"items": items} if items else {}
        if kind not in ZONAL:
            return {"items": [self.resources[path] for path in items]} if items else {}
        scopes: Body = {"zones/nowhere1-a": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
        for path in items:
            scope = "/".join(path.split("/")[2:4])
            scopes.setdefault(scope, {kind: []})[kind].append(self.resources[path])
        for zone in self.unreachable if last else ():
            scopes[f"zones/{zone}"] = {"warning": {"code": "UNREACHABLE"}}
        return {"items": scopes}

    def _delete(self, api: str, path: str) -> tuple[int, Any]:
        path = path.removeprefix(APIS[api]).removeprefix("v1/")
        if api == "storage":
            name = path.removeprefix("b/")
            if self.objects.get(name):
                return 409, error(409, "conflict")
            owner: dict[str, Body] = self.buckets
            path = name
        else:
            owner = self.accounts if api == "iam" else self.resources
        if path not in owner:
            return 404, error(404, "notFound")
        if any(str(one.get("network")).endswith(path) for one in owner.values()):
            return 400, error(400, "resourceInUseByAnotherResource")
        del owner[path]
        self.deleted.append(path)
        return (204, None) if api == "storage" else (200, {})


@functools.cache  # `re` keeps 512 patterns
def _shape(api: str, id_: str) -> re.Pattern[str]:
    """The paths of a method."""
    method = document(api).methods[id_]
    flat = APIS[api] + method.get("flatPath", method["path"])
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", flat))


def _method(api: str, verb: str, path: str) -> tuple[str, dict[str, str]]:
    """The method of Google's description that this is, with the parameters of its path."""
    for id_, method in document(api).methods.items():
        if method["httpMethod"] == verb and _shape(api, id_).fullmatch(path):
            shape = re.sub(r"\{\+(\w+)\}", r"(?P<\1>.+)", APIS[api] + method["path"])
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", shape), path)
            assert found, path
            return id_, {name: unquote(value) for name, value in found.groupdict().items()}
    raise AssertionError(f"{api} has no call {verb} {path}")


@contextmanager
def serving(lists: Lists) -> Iterator[dict[str, str]]:
    """The environment by which programs ask this one, while the block runs."""
    with server.serving(lambda call: lists.answer(call.method, call.target)) as lists.base:
        yield {
            f"{OVERRIDE}COMPUTE": f"{lists.base}/compute/compute/v1/",
            f"{OVERRIDE}STORAGE": f"{lists.base}/storage/storage/v1/",
            f"{OVERRIDE}IAM": f"{lists.base}/iam/",
            f"{OVERRIDE}CLOUDRESOURCEMANAGER": f"{lists.base}/cloudresourcemanager/",
        }
