"""Checks whether Google Cloud lets this user create a stack: credentials, clock, rights, policies
of the organisation, quota of networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.doctor import Check

from ...errors import RailheadError
from ..examination import clock_check, quota_check, rights_check
from ..request import StackRequest
from . import rights
from .client import LOGIN, GoogleClient, connect, endpoint

PERMISSIONS = 100  # the most in one request
NETWORK = "gcp:compute/network:Network"
IMAGES = "projects/ubuntu-os-cloud", "projects/deeplearning-platform-release"  # of stacks


@dataclass(frozen=True)
class Quota:
    """A quota of a project."""

    metric: str = ""
    limit: float = 0
    usage: float = 0


@dataclass(frozen=True)
class Project:
    """The answer to projects.get of Compute."""

    name: str = ""
    quotas: tuple[Quota, ...] = ()


@dataclass(frozen=True)
class Permissions:
    """The permissions that the caller has, of those in the request."""

    permissions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Enforced:
    """A constraint that is on or off."""

    enforced: bool = False


@dataclass(frozen=True)
class Listed:
    """A constraint with values; `allValues` is ALLOW or DENY."""

    allValues: str = ""
    allowedValues: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrgPolicy:
    """The policy that applies to a project."""

    booleanPolicy: Enforced = Enforced()
    listPolicy: Listed = Listed()


def _image_projects(config: Mapping[str, str]) -> set[str]:
    """The projects that may have the image of a config."""
    image = config.get("image", "")
    if image.startswith("projects/"):
        return {"/".join(image.split("/")[:2])}
    return {IMAGES[0 if image.startswith("ubuntu") else 1]} if image else {*IMAGES}


@dataclass(frozen=True)
class Constraint:
    """A constraint that can prevent a stack; `what` it does, and the command that avoids it."""

    name: str
    what: str
    next: str

    def forbids(self, policy: OrgPolicy, config: Mapping[str, str]) -> bool:
        """Whether a stack with this config cannot be created."""
        if self.name == "compute.requireOsLogin":
            return policy.booleanPolicy.enforced and config.get("oslogin") != "true"
        if self.name == "compute.trustedImageProjects":
            allowed = {value.removeprefix("is:") for value in policy.listPolicy.allowedValues}
            folders = [value for value in allowed if value.startswith(("under:", "in:"))]
            return bool(allowed) and not folders and not allowed & _image_projects(config)
        return policy.booleanPolicy.enforced or policy.listPolicy.allValues == "DENY"


EXCEPTION = "gcloud resource-manager org-policies describe {name} --project {project} --effective"
OS_LOGIN = "pulumi config set{option} oslogin true"
CONSTRAINTS = (
    Constraint(
        "compute.vmExternalIpAccess", "machines may have no public address", EXCEPTION
    ),
    Constraint("compute.requireOsLogin", "OS Login is required", OS_LOGIN),
    Constraint(
        "compute.disableGuestAttributesAccess",
        "guest attributes, which have the host keys, are off",
        EXCEPTION,
    ),
    Constraint(
        "compute.trustedImageProjects",
        f"images only of other projects than {' and '.join(IMAGES)}",
        EXCEPTION,
    ),
)  # fmt: skip


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
    for constraint in CONSTRAINTS:
        yield _constraint(constraint, request, client)
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
        return Check("rights", "unknown", error.message)
    missing = [name for name in needed if name not in granted]
    return rights_check(missing, len(needed), exists=bool(request.kinds))


def _constraint(constraint: Constraint, request: StackRequest, client: GoogleClient) -> Check:
    name = f"policy {constraint.name.partition('.')[2]}"
    body = {"constraint": f"constraints/{constraint.name}"}
    try:
        answer = _post(client, request, "getEffectiveOrgPolicy", body)
        policy = decode(OrgPolicy, answer, what="the policy", error=RailheadError)
    except RailheadError as error:
        return Check(name, "unknown", error.message)
    if not constraint.forbids(policy, request.config):
        return Check(name, "ok", "does not apply")
    command = constraint.next.format(
        name=constraint.name, project=request.project, option=request.option
    )
    return Check(name, "blocks", constraint.what, command)


def _networks(project: Project, request: StackRequest) -> Check:
    quota = next((one for one in project.quotas if one.metric == "NETWORKS"), None)
    if quota is None:
        return Check("quota NETWORKS", "unknown", "the project does not state it")
    existing = f"pulumi config set{request.option} network NAME   # an existing one"
    return quota_check("quota NETWORKS", quota.limit, quota.usage, 1, existing)
