"""Checks whether AWS lets this user create a stack: credentials, clock, rights, VPC quota."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from railhead.documents.doctor import Check
from railhead.documents.lazy import dataclass

from ...console.text import count
from ...errors import RailheadError
from ..base import Refused
from ..examination import ADMINISTRATOR, clock_check, quota_check, rights_check
from ..request import StackRequest
from . import launch_checks, rights
from .client import UNAUTHORIZED, AwsClient, ask, connect, credentials_end
from .simulation import Decision, simulate

IDENTITY = "aws sts get-caller-identity"
# Resources of EC2 that a policy may name; their ids are examples.
EC2_KINDS = (
    "instance", "volume", "network-interface", "vpc", "subnet", "security-group",
    "internet-gateway", "route-table", "vpc-endpoint", "key-pair", "placement-group",
)  # fmt: skip
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


@dataclass(frozen=True)
class Identity:
    """Who signs the requests."""

    Account: str
    Arn: str


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
    existing = request.config.get("network")
    if NETWORK not in request.kinds and not existing:
        yield _vpcs(request, client)
    yield from launch_checks.checks(client, existing_network=bool(existing))


def _credentials(identity: Identity, end: datetime | None, now: datetime) -> Check:
    who = f"{identity.Arn}, account {identity.Account}"
    if end is None:
        return Check("credentials", "ok", who)
    minutes = (end - now).total_seconds() / 60
    state = "ok" if minutes > 60 else "warns"
    expiry = f"{who}; they expire at {end:%Y-%m-%d %H:%M} UTC, in {minutes:.0f} minutes"
    return Check("credentials", state, expiry, "" if state == "ok" else "aws sso login")


def _region(request: StackRequest, client: AwsClient) -> Check:
    """Whether the region is enabled: AWS refuses every call to a disabled one."""
    try:
        client("ec2", "describe_availability_zones", AllAvailabilityZones=False)
    except RailheadError as error:
        listing = (
            "aws ec2 describe-regions --all-regions --query 'Regions[].[RegionName,OptInStatus]'"
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
            for example, applicable in _examples(arn, names, request)
            for decision in simulate(client, principal, [example], applicable)
        ]
    except Refused as error:
        yield _by_dry_runs(client, request, error)
        return
    limited = _on_some(client, principal, identity.Account, request, decisions)
    yield from _decided(decisions, limited, exists=bool(request.kinds))


def _examples(
    arn: str, names: Sequence[str], request: StackRequest
) -> Iterator[tuple[str, list[str]]]:
    """Example ARNs of this stack's resources, each with the rights that apply to it: a policy may
    be for the names of one cluster, and a bucket has other rights than its objects."""
    example = arn.replace("*", f"{request.config.get('name', 'x')}-x") if arn != "*" else arn
    if arn == rights.BUCKETS and (bucket_name := request.config.get("bucket_name")):
        example = arn.replace("railhead-*", bucket_name)
    objects = [name for name in names if rights.OBJECT.fullmatch(name)]
    yield example, [name for name in names if name not in objects]
    if objects:
        yield f"{example}/x", objects


def _on_some(
    client: AwsClient,
    principal: str,
    account: str,
    request: StackRequest,
    decisions: Sequence[Decision],
) -> set[str]:
    """The rights of EC2 that are denied on `*`, but allowed on some resources, such as those of one
    region. All denied ones if IAM does not answer."""
    denied = [d.EvalActionName for d in decisions if d.EvalDecision == "implicitDeny"]
    names = [name for name in denied if name.startswith("ec2:")]
    arns = [f"arn:aws:ec2:{request.region}:{account}:{kind}/x" for kind in EC2_KINDS]
    try:
        again = [*simulate(client, principal, arns, names)]
    except Refused:
        return {*names}
    return {d.EvalActionName for d in again if d.EvalDecision == "allowed" or d.is_conditional}


def _principal(identity: Identity, client: AwsClient) -> str:
    """The ARN of the user or role whose policies apply; an assumed role has a session's ARN."""
    kind, _, rest = identity.Arn.rpartition(":")[2].partition("/")
    if kind != "assumed-role":
        return identity.Arn.replace(":sts:", ":iam:")
    name = rest.partition("/")[0]
    try:
        return ask(str, client, "iam", "get_role", "Role.Arn", RoleName=name)
    except Refused:  # right for a role without a path
        return f"arn:aws:iam::{identity.Account}:role/{name}"


def _decided(
    decisions: Sequence[Decision], limited: Collection[str], *, exists: bool
) -> Iterator[Check]:
    missing, by_organization, conditional = [], [], []
    for decision in decisions:
        if decision.EvalDecision == "allowed":
            continue
        name = decision.EvalActionName
        if not decision.OrganizationsDecisionDetail:
            by_organization.append(name)
        elif decision.is_conditional or name in limited:
            conditional.append(name)
        else:
            missing.append(name)
    yield rights_check(missing, len(decisions), exists=exists)
    if by_organization:
        text = f"policies of the organisation (SCPs) refuse {', '.join(by_organization)}"
        yield Check("organisation", "blocks", text, str(ADMINISTRATOR))
    if conditional:
        names = ", ".join(conditional)
        text = f"allowed on some resources, or under conditions not known here: {names}"
        yield Check("conditions", "unknown", text)


def _by_dry_runs(client: AwsClient, request: StackRequest, reason: Refused) -> Check:
    """A check by a few requests to EC2, for a user who may not simulate policies. It only warns: a
    policy may require tags, which these requests do not have."""
    needed = rights.by_resource(request)["*"]
    calls = {call: p for call, p in DRY_RUNS.items() if rights.action_of("ec2", call) in needed}
    denied = []
    for call, parameters in calls.items():
        try:
            client("ec2", call, DryRun=True, **parameters)
        except Refused as error:
            if error.error_code in UNAUTHORIZED:
                denied.append(rights.action_of("ec2", call))
    if denied:
        return rights_check(denied, len(calls), exists=True)
    text = f"{count(len(calls), 'right')} of EC2 are there; the others: {reason.message}"
    return Check("rights", "unknown", text, str(ADMINISTRATOR))


def _vpcs(request: StackRequest, client: AwsClient) -> Check:
    try:
        used = len(client("ec2", "describe_vpcs")["Vpcs"])
        named = ("service-quotas", "get_service_quota", "Quota.Value")
        limit = ask(float, client, *named, ServiceCode="vpc", QuotaCode=VPCS)
    except RailheadError as error:
        return Check("quota VPCs", "unknown", error.message)
    page = f"https://{request.region}.console.aws.amazon.com/servicequotas/home/services/vpc/quotas"
    command = f"pulumi config set{request.option} network VPC_ID"
    existing = f"{command}   # an existing one; or: {page}/{VPCS}"
    return quota_check("quota VPCs", limit, used, 1, existing)
