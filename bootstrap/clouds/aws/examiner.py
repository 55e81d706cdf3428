"""Checks whether AWS lets this user create a stack: credentials, clock, rights, VPC quota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from railhead.documents.doctor import Check

from ...console.text import count
from ...errors import RailheadError
from ..base import Refused
from ..examination import ADMINISTRATOR, clock_check, quota_check, rights_check
from ..request import StackRequest
from . import rights
from .client import AwsClient, ask, connect, credentials_end

IDENTITY = "aws sts get-caller-identity"
ACTIONS = 50  # in one request to simulate a policy
PAGES = 20  # of one simulation
VPCS = "L-F678F1CE"  # the quota "VPCs per Region"
NETWORK = "aws:ec2/vpc:Vpc"
# Calls of EC2 that change nothing with DryRun, and refer to no resource: for users who may not
# simulate a policy.
DRY_RUNS: Mapping[str, Mapping[str, Any]] = {
    "describe_instances": {},
    "create_vpc": {"CidrBlock": "10.0.0.0/16"},
    "create_internet_gateway": {},
    "import_key_pair": {"KeyName": "railhead-doctor", "PublicKeyMaterial": b"ssh-ed25519 AAAA"},
}
UNAUTHORIZED = ("UnauthorizedOperation", "AccessDenied")


@dataclass(frozen=True)
class Identity:
    """Who signs the requests."""

    Account: str
    Arn: str


@dataclass(frozen=True)
class Role:
    """A role."""

    Arn: str


@dataclass(frozen=True)
class GetRole:
    """The answer to GetRole."""

    Role: Role


@dataclass(frozen=True)
class OfOrganization:
    """Whether the policies of the organisation (SCPs) allow an action."""

    AllowedByOrganizations: bool = True


@dataclass(frozen=True)
class Simulated:
    """The decision about one action."""

    EvalActionName: str
    EvalDecision: str
    MissingContextValues: tuple[str, ...] = ()
    OrganizationsDecisionDetail: OfOrganization = OfOrganization()


@dataclass(frozen=True)
class Simulation:
    """The answer to SimulatePrincipalPolicy."""

    EvaluationResults: tuple[Simulated, ...] = ()
    IsTruncated: bool = False
    Marker: str = ""


@dataclass(frozen=True)
class Value:
    """The value of a quota."""

    Value: float


@dataclass(frozen=True)
class Quota:
    """The answer to GetServiceQuota."""

    Quota: Value


def checks(request: StackRequest, client: AwsClient | None = None) -> Iterator[Check]:
    """All checks, in order; without valid credentials only the first."""
    client = client or connect(request.region)
    try:
        response = client("sts", "get_caller_identity")
        identity = Identity(str(response["Account"]), str(response["Arn"]))
    except RailheadError as error:
        next_command = str(error.hint or IDENTITY)
        yield Check("credentials", "blocks", error.message, next_command)
        return
    yield _credentials(identity, credentials_end(), datetime.now(timezone.utc))
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    yield clock_check(headers.get("date"), datetime.now(timezone.utc))
    yield _region(request, client)
    yield from _rights(request, identity, client)
    if NETWORK not in request.kinds and not request.config.get("network"):
        yield _vpcs(request, client)


def _credentials(identity: Identity, end: datetime | None, now: datetime) -> Check:
    who = f"{identity.Arn}, account {identity.Account}"
    if end is None:
        return Check("credentials", "ok", who)
    minutes = (end - now).total_seconds() / 60
    state = "ok" if minutes > 60 else "warns"
    expiry = f"{who}; they expire at {end:%Y-%m-%d %H:%M} UTC, in {minutes:.0f} minutes"
    return Check("credentials", state, expiry, "" if state == "ok" else "aws sso login")


def _region(request: StackRequest, client: AwsClient) -> Check:
    """Whether the region is on: every call to one that is off is refused."""
    try:
        client("ec2", "describe_availability_zones", AllAvailabilityZones=False)
    except RailheadError as error:
        listing = (
            "aws ec2 describe-regions --all-regions --query Regions[].[RegionName,OptInStatus]"
        )
        return Check("region", "blocks", f"{request.region}: {error.message}", listing)
    return Check("region", "ok", f"{request.region} answers")


def _rights(request: StackRequest, identity: Identity, client: AwsClient) -> Iterator[Check]:
    if identity.Arn.endswith(":root"):
        text = "the root user has all rights; a role with only these is safer"
        yield Check("rights", "warns", text, str(ADMINISTRATOR))
        return
    needed = rights.by_resource(request, identity.Account, request.region)
    try:
        principal = _principal(identity, client)
        decisions = [
            decision
            for arn, names in needed.items()
            for decision in _simulate(client, principal, arn, names)
        ]
    except Refused as error:
        yield _by_dry_runs(client, error)
        return
    yield from _decided(decisions)


def _principal(identity: Identity, client: AwsClient) -> str:
    """The ARN of the user or role whose policies apply; an assumed role has a session's ARN."""
    kind, _, rest = identity.Arn.rpartition(":")[2].partition("/")
    if kind != "assumed-role":
        return identity.Arn.replace(":sts:", ":iam:")
    name = rest.partition("/")[0]
    return ask(GetRole, client, "iam", "get_role", RoleName=name).Role.Arn


def _simulate(
    client: AwsClient, principal: str, arn: str, names: Sequence[str]
) -> Iterator[Simulated]:
    for start in range(0, len(names), ACTIONS):
        parameters: dict[str, Any] = {
            "PolicySourceArn": principal,
            "ActionNames": names[start : start + ACTIONS],
            "ResourceArns": [arn.replace("*", "x") if arn != "*" else arn],
        }
        for _ in range(PAGES):
            page = ask(Simulation, client, "iam", "simulate_principal_policy", **parameters)
            yield from page.EvaluationResults
            if not page.IsTruncated:
                break
            parameters["Marker"] = page.Marker


def _decided(decisions: Sequence[Simulated]) -> Iterator[Check]:
    refused = [one for one in decisions if one.EvalDecision != "allowed"]
    by_organization = [
        one for one in refused if not one.OrganizationsDecisionDetail.AllowedByOrganizations
    ]
    conditional = [
        one for one in refused if one.MissingContextValues and one not in by_organization
    ]
    missing = [one for one in refused if one not in by_organization and one not in conditional]
    yield rights_check([one.EvalActionName for one in missing], len(decisions))
    if by_organization:
        names = ", ".join(one.EvalActionName for one in by_organization)
        text = f"policies of the organisation (SCPs) refuse {names}"
        yield Check("organisation", "blocks", text, str(ADMINISTRATOR))
    if conditional:
        names = ", ".join(one.EvalActionName for one in conditional)
        text = f"allowed under conditions that cannot be evaluated here: {names}"
        yield Check("conditions", "unknown", text)


def _by_dry_runs(client: AwsClient, reason: Refused) -> Check:
    """A check by a few requests to EC2, for a user who may not simulate policies."""
    denied = []
    for call, parameters in DRY_RUNS.items():
        try:
            client("ec2", call, DryRun=True, **parameters)
        except Refused as error:
            if error.error_code in UNAUTHORIZED:
                denied.append(rights.action_of("ec2", call))
    if denied:
        return rights_check(denied, len(DRY_RUNS))
    text = f"{count(len(DRY_RUNS), 'right')} of EC2 are there; the others: {reason.message}"
    return Check("rights", "unknown", text, str(ADMINISTRATOR))


def _vpcs(request: StackRequest, client: AwsClient) -> Check:
    try:
        used = len(client("ec2", "describe_vpcs")["Vpcs"])
        quota = ask(
            Quota, client, "service-quotas", "get_service_quota", ServiceCode="vpc", QuotaCode=VPCS
        )
    except RailheadError as error:
        return Check("quota VPCs", "unknown", error.message)
    page = f"https://{request.region}.console.aws.amazon.com/servicequotas/home/services/vpc/quotas"
    existing = f"pulumi config set network VPC_ID   # an existing one; or: {page}/{VPCS}"
    return quota_check("quota VPCs", quota.Quota.Value, used, 1, existing)
