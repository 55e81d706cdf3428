"""Policies of an organisation that can prevent a stack, evaluated as Google evaluates them.

A denied value counts before an allowed one; a list of allowed values denies all others. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

from ..request import StackRequest, with_bucket

DLVM, UBUNTU = "projects/deeplearning-platform-release", "projects/ubuntu-os-cloud"
# Groups of gcp.resourceLocations that are known by the beginning of a region's name.
CONTINENTS = ("us", "europe", "asia", "australia")
DEFAULT_MACHINE = "n1-standard-8"


@dataclass(frozen=True)
class Listed:
    """A constraint with values; `allValues` is ALLOW or DENY."""

    allValues: str = ""
    allowedValues: tuple[str, ...] = ()
    deniedValues: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrgPolicy:
    """The policy that applies to a project, with what it inherits."""

    booleanPolicy: bool = key(False, path="enforced")  # of a constraint that is on or off
    listPolicy: Listed = Listed()


@dataclass(frozen=True)
class Rule:
    """A rule of a managed constraint; what its parameters mean differs for each."""

    enforce: bool = False
    parameters: Any = None


@dataclass(frozen=True)
class ManagedPolicy:
    """The policy of a managed constraint."""

    spec: tuple[Rule, ...] = key((), path="rules")

    @property
    def enforced(self) -> bool | None:
        """Whether it is on; None if that depends on parameters."""
        on = [rule for rule in self.spec if rule.enforce]
        return None if any(rule.parameters for rule in on) else bool(on)


# Whether a stack is allowed; None if that cannot be known from the policy alone.
Verdict = bool | None
Judge = Callable[[OrgPolicy, StackRequest], Verdict]


def allows(policy: Listed, names: Callable[[str], Verdict]) -> Verdict:
    """Whether a value is allowed. `names` says whether an entry of the policy names the value; None
    for a group of values whose members are unknown."""
    if policy.allValues:
        return policy.allValues == "ALLOW"
    denied = _any(map(names, policy.deniedValues))
    if denied:
        return False
    allowed = _any(map(names, policy.allowedValues)) if policy.allowedValues else True
    return allowed if denied is False or allowed is False else None


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    distinct = set(verdicts)
    return True if True in distinct else None if None in distinct else False


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    distinct = set(verdicts)
    return False if False in distinct else None if None in distinct else True


def matching(pattern: str) -> Callable[[str], Verdict]:
    """Whether an entry matches; None for a part of the hierarchy that may contain the value."""

    def names(entry: str) -> Verdict:
        if entry.startswith(("under:", "in:")):
            return None
        return re.fullmatch(pattern, entry.removeprefix("is:")) is not None

    return names


def external_addresses(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """Each machine has a public address; a list names machines with their zones."""
    zones = str(request.config.get("zones", "")).split(",")
    zones = [zone.strip() for zone in zones if zone.strip()]
    zone = "|".join(map(re.escape, zones)) or rf"{re.escape(_region(request))}-[a-z]"
    path = f"projects/{request.project}/zones/(?:{zone})/instances/{request.config.get('name', '')}"
    numbers = range(1, int(request.config.get("count", "2")) + 1)
    return _all(allows(policy.listPolicy, matching(f"{path}-{number}")) for number in numbers)


def _region(request: StackRequest) -> str:
    return request.config.get("region", COMMON_FACTS["gcp"].default_region)


def os_login(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """OS Login is an option of a stack."""
    return not policy.booleanPolicy or request.config.get("oslogin") == "true"


def not_enforced(policy: OrgPolicy, _request: StackRequest) -> Verdict:
    """A constraint that prevents every stack."""
    return not policy.booleanPolicy


def account_creation(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """Only a stack with buckets has a service account, and an existing one is not created again."""
    has_it = any("serviceaccount" in kind.lower() for kind in request.kinds)
    needs = with_bucket(request.config) or bool(request.config.get("data_buckets"))
    return has_it or not needs or not policy.booleanPolicy


def image_project(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """The project of the image is trusted."""
    return allows(policy.listPolicy, matching(re.escape(project_of_image(request))))


def project_of_image(request: StackRequest) -> str:
    """The project that has the image of a stack: projects/ubuntu-os-cloud."""
    image = request.config.get("image", "")
    if image.startswith("projects/"):
        return "/".join(image.split("/")[:2])
    if image:
        return UBUNTU if image.startswith("ubuntu") else DLVM
    machine = request.config.get("machine_type", DEFAULT_MACHINE)
    v100 = request.config.get("gpu_type") == "nvidia-tesla-v100"
    return UBUNTU if v100 or machine.startswith(("e2-", "n2-")) else DLVM


def location(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """The region is among the allowed locations, which are regions and groups of them."""
    region = _region(request)

    def names(entry: str) -> Verdict:
        if not entry.startswith("in:"):
            return entry.removeprefix("is:") == region
        group = entry.removeprefix("in:").removesuffix("-locations")
        if group == region or (group in CONTINENTS and region.startswith(f"{group}-")):
            return True
        return False if group in CONTINENTS or re.search(r"\d$", group) else None

    return allows(policy.listPolicy, names)


def without_own_keys(policy: OrgPolicy, request: StackRequest) -> Verdict:
    """Disks and buckets are encrypted with Google's keys."""
    services = ["compute.googleapis.com"]
    services += ["storage.googleapis.com"] if with_bucket(request.config) else []
    return _all(allows(policy.listPolicy, matching(re.escape(name))) for name in services)


@dataclass(frozen=True)
class Constraint:
    """A constraint that can prevent a stack. `effect`: what it does; `judge`: whether a stack is
    allowed; `managed`: its newer form, which new organisations have; `next`: how to avoid it;
    without it an administrator has to make an exception."""

    name: str
    effect: str
    judge: Judge = not_enforced
    managed: str = ""
    next: str = ""

    @property
    def short(self) -> str:
        """Its name in a line of `fab doctor`."""
        return self.name.partition(".")[2]

    def verdict(
        self, policy: OrgPolicy, managed: ManagedPolicy | None, request: StackRequest
    ) -> Verdict:
        """Whether both of its forms allow a stack."""
        old = self.judge(policy, request)
        if managed is None or old is False or managed.enforced is False:
            return old
        new: Verdict = None
        if managed.enforced:
            new = self.judge(OrgPolicy(True, Listed("DENY")), request)
        return False if new is False else old if new else None


CONSTRAINTS = (
    Constraint(
        "compute.vmExternalIpAccess",
        "machines may have no public address",
        external_addresses,
        managed="compute.managed.vmExternalIpAccess",
    ),
    Constraint(
        "compute.requireOsLogin",
        "OS Login is required",
        os_login,
        managed="compute.managed.requireOsLogin",
        next="pulumi config set{option} oslogin true",
    ),
    Constraint(
        "compute.disableGuestAttributesAccess",
        "guest attributes, which have the host keys, are off",
        managed="compute.managed.disableGuestAttributesAccess",
    ),
    Constraint(
        "compute.trustedImageProjects", "the project of the image is not trusted", image_project
    ),
    Constraint("gcp.resourceLocations", "the region is not among the allowed locations", location),
    Constraint(
        "gcp.restrictNonCmekServices",
        "disks and buckets need keys of your own (CMEK), which stacks do not use",
        without_own_keys,
    ),
    Constraint(
        "iam.disableServiceAccountCreation",
        "no service account may be created, which the bucket needs",
        account_creation,
        managed="iam.managed.disableServiceAccountCreation",
        next="pulumi config set{option} bucket false",
    ),
)
