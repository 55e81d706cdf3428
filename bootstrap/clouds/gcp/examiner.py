"""Checks whether Google Cloud lets this user create a stack: credentials, clock, rights, policies
of the organisation, quota of networks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.doctor import Check
from railhead.documents.lazy import dataclass

from ...errors import RailheadError
from ..base import Refused
from ..examination import clock_check, quota_check, rights_check
from ..request import StackRequest
from . import policies, rights
from .client import LOGIN, GoogleClient, connect, endpoint
from .policies import Constraint, ManagedPolicy, OrgPolicy

PERMISSIONS = 100  # the most in one request
NETWORK = "gcp:compute/network:Network"


@dataclass(frozen=True)
class Quota:
    """A quota of a project."""

    metric: str = ""
    limit: float = 0
    usage: float = 0


@dataclass(frozen=True)
class Project:
    """The answer to projects.get of Compute."""

    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True)
class Permissions:
    """The permissions that the caller has, of those in the request."""

    permissions: tuple[str, ...] = ()


EXCEPTION = (
    "gcloud resource-manager org-policies describe {name} --project {project} --effective"
    "   # an administrator (roles/orgpolicy.policyAdmin) can make an exception for this project"
)
VIEWER = "ask who has roles/orgpolicy.policyViewer in the organisation whether it applies"


def checks(request: StackRequest, client: GoogleClient | None = None) -> Iterator[Check]:
    """All checks, in order; without credentials or a project only the first."""
    if not request.project:
        text = "the stack's config has no project"
        command = f"pulumi config set{request.option} project my-project-123"
        yield Check("project", "blocks", text, command)
        return
    try:
        client = client or connect()
        response = client.request("GET", f"projects/{request.project}")
        project = decode(Project, response.json(), what="the project", error=RailheadError)
    except RailheadError as error:
        yield Check("credentials", "blocks", error.message, str(error.hint or LOGIN))
        return
    yield Check("credentials", "ok", f"{_who(client)}, project {request.project}")
    yield clock_check(response.headers.get("Date"), datetime.now(timezone.utc))
    yield _rights(request, client)
    yield from _policies(request, client)
    if NETWORK not in request.kinds and not request.config.get("network"):
        yield _networks(project, request)


def _who(client: GoogleClient) -> str:
    credentials = client.session.credentials
    for attribute in ("service_account_email", "account"):
        if name := getattr(credentials, attribute, ""):
            return str(name)
    return "a user of gcloud"


def _post(client: GoogleClient, request: StackRequest, method: str, body: Any) -> Any:
    address = f"{endpoint('cloudresourcemanager')}v1/projects/{request.project}:{method}"
    headers = {"X-Goog-User-Project": request.project}
    return client("POST", address, json=body, headers=headers)


def _rights(request: StackRequest, client: GoogleClient) -> Check:
    needed = rights.names(request)
    granted: set[str] = set()
    try:
        for start in range(0, len(needed), PERMISSIONS):
            body = {"permissions": list(needed[start : start + PERMISSIONS])}
            answer = _post(client, request, "testIamPermissions", body)
            kind = "the answer to testIamPermissions"
            granted |= {*decode(Permissions, answer, what=kind, error=RailheadError).permissions}
    except RailheadError as error:
        return _unread("rights", error, "cloudresourcemanager", request)
    missing = [name for name in needed if name not in granted]
    return rights_check(missing, len(needed), exists=bool(request.kinds))


def _policies(request: StackRequest, client: GoogleClient) -> Iterator[Check]:
    managed, why = _managed(request, client)
    for constraint in policies.CONSTRAINTS:
        yield _constraint(constraint, managed.get(constraint.managed), request, client)
    if why:
        yield _unread("policies managed", why, "orgpolicy", request)


def _managed(
    request: StackRequest, client: GoogleClient
) -> tuple[dict[str, ManagedPolicy], RailheadError | None]:
    """The managed constraints that apply, and why others could not be read."""
    by_name = {}
    for name in filter(None, (constraint.managed for constraint in policies.CONSTRAINTS)):
        path = f"v2/projects/{request.project}/policies/{name}:getEffectivePolicy"
        headers = {"X-Goog-User-Project": str(request.project)}
        try:
            answer = client("GET", f"{endpoint('orgpolicy')}{path}", headers=headers)
            subject = "the managed policy"
            by_name[name] = decode(ManagedPolicy, answer, what=subject, error=RailheadError)
        except Refused as error:
            if error.error_code not in ("404", "notFound"):
                return by_name, error
        except RailheadError as error:
            return by_name, error
    return by_name, None


def _constraint(
    constraint: Constraint,
    managed: ManagedPolicy | None,
    request: StackRequest,
    client: GoogleClient,
) -> Check:
    name = f"policy {constraint.short}"
    body = {"constraint": f"constraints/{constraint.name}"}
    try:
        answer = _post(client, request, "getEffectiveOrgPolicy", body)
        policy = decode(OrgPolicy, answer, what="the policy", error=RailheadError)
    except RailheadError as error:
        return _unread(name, error, "cloudresourcemanager", request)
    allowed = constraint.verdict(policy, managed, request)
    if allowed:
        return Check(name, "ok", "does not apply")
    describe = EXCEPTION.format(name=constraint.name, project=request.project)
    if allowed is None:
        text = f"{constraint.effect}, unless a group or a parameter of the policy has this stack"
        return Check(name, "unknown", text, describe)
    command = constraint.next.format(option=request.option) or describe
    return Check(name, "blocks", constraint.effect, command)


def _unread(name: str, error: RailheadError, api: str, request: StackRequest) -> Check:
    """A policy that could not be read, and who can."""
    off = re.search(r"has not been used in project|it is disabled|SERVICE_DISABLED", error.message)
    service, project = shlex.quote(f"{api}.googleapis.com"), shlex.quote(str(request.project))
    enable = f"gcloud services enable {service} --project {project}"
    return Check(name, "unknown", error.message, enable if off else VIEWER)


def _networks(project: Project, request: StackRequest) -> Check:
    quota = next((quota for quota in project.quotas if quota.metric == "NETWORKS"), None)
    if quota is None:
        return Check("quota NETWORKS", "unknown", "the project does not state it")
    existing = f"pulumi config set{request.option} network NAME   # an existing one"
    return quota_check("quota NETWORKS", quota.limit, quota.usage, 1, existing)
