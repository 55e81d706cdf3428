"""What Google Cloud allows this user, against the stand-in for its APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from standins.gcp.lists import Lists

from bootstrap.clouds.gcp import examiner, policies, rights
from bootstrap.clouds.gcp.client import GoogleClient
from bootstrap.clouds.request import StackRequest
from railhead.documents.doctor import Check
from stacks.gcp.image import FAMILIES
from stacks.machine_types import gcp as gcp_types
from stacks.rules import gcp as gcp_rules

SET = "pulumi config set --stack dev"
CONFIG = {"cloud": "gcp", "project": "p-12345"}


class Session(requests.Session):
    """A session of google-auth, as far as it is looked at."""

    class credentials:
        service_account_email = "me@p-12345.iam.gserviceaccount.com"


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lists]:
    cloud = Lists(calls=rights.CALLS)
    with cloud.served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield cloud


def checks(compute: Lists, **config: str) -> dict[str, Check]:
    client = GoogleClient(Session(), compute=compute.base)
    request = StackRequest("gcp", CONFIG | config, stack="dev")
    return {check.name: check for check in examiner.checks(request, client)}


def test_a_user_with_all_rights_is_not_stopped(compute: Lists) -> None:
    by_name = checks(compute)
    assert {check.state for check in by_name.values()} == {"ok"}
    assert "me@p-12345.iam" in by_name["credentials"].evidence


def test_missing_permissions_are_named(compute: Lists) -> None:
    compute.missing = {"compute.instances.create", "storage.buckets.create"}
    assert "storage.buckets.create" in checks(compute)["rights"].evidence
    assert checks(compute)["rights"].state == "blocks"
    without = checks(compute, bucket="false")["rights"]
    assert "compute.instances.create" in without.evidence
    assert "storage" not in without.evidence


ON: Any = {"booleanPolicy": {"enforced": True}}
NONE: Any = {"listPolicy": {"allValues": "DENY"}}
MACHINE = "projects/p-12345/zones/us-central1-{}/instances/{}"
OURS = [MACHINE.format("a", f"gpu-{number}") for number in (1, 2)]
V100, LONDON = "nvidia-tesla-v100", "europe-west2"
BASTION = MACHINE.format("a", "bastion")
UBUNTU, DLVM = "projects/ubuntu-os-cloud", "projects/deeplearning-platform-release"


def allowed(*values: str) -> Any:
    return {"listPolicy": {"allowedValues": [*values]}}


def denied(*values: str, allow: tuple[str, ...] = ()) -> Any:
    return {"listPolicy": {"deniedValues": [*values], "allowedValues": [*allow]}}


@pytest.mark.parametrize(
    ("constraint", "policy", "config", "state"),
    [
        ("compute.vmExternalIpAccess", NONE, {}, "blocks"),
        ("compute.vmExternalIpAccess", {"listPolicy": {"allValues": "ALLOW"}}, {}, "ok"),
        ("compute.vmExternalIpAccess", allowed(BASTION), {}, "blocks"),
        ("compute.vmExternalIpAccess", allowed(BASTION, OURS[0]), {}, "blocks"),
        ("compute.vmExternalIpAccess", allowed(BASTION, *OURS), {}, "ok"),
        ("compute.vmExternalIpAccess", allowed(*OURS), {"zones": "us-central1-f"}, "blocks"),
        ("compute.vmExternalIpAccess", allowed(*OURS), {"zones": "us-central1-a"}, "ok"),
        ("compute.vmExternalIpAccess", allowed("under:folders/12"), {}, "unknown"),
        ("compute.vmExternalIpAccess", denied(OURS[1]), {}, "blocks"),
        ("compute.vmExternalIpAccess", denied(OURS[1], allow=tuple(OURS)), {}, "blocks"),
        ("compute.vmExternalIpAccess", denied(BASTION), {}, "ok"),
        ("compute.requireOsLogin", ON, {}, "blocks"),
        ("compute.requireOsLogin", ON, {"oslogin": "true"}, "ok"),
        ("compute.disableGuestAttributesAccess", ON, {}, "blocks"),
        ("compute.trustedImageProjects", NONE, {}, "blocks"),
        ("compute.trustedImageProjects", allowed("projects/ours"), {}, "blocks"),
        ("compute.trustedImageProjects", allowed(UBUNTU), {}, "blocks"),
        ("compute.trustedImageProjects", allowed(DLVM), {}, "ok"),
        ("compute.trustedImageProjects", allowed(f"is:{UBUNTU}"), {"image": "ubuntu-2204"}, "ok"),
        ("compute.trustedImageProjects", allowed(UBUNTU), {"machine_type": "e2-standard-4"}, "ok"),
        ("compute.trustedImageProjects", allowed(UBUNTU), {"gpu_type": V100}, "ok"),
        ("compute.trustedImageProjects", denied(DLVM, allow=(DLVM,)), {}, "blocks"),
        ("compute.trustedImageProjects", denied("projects/other"), {}, "ok"),
        ("compute.trustedImageProjects", allowed("under:folders/12"), {}, "unknown"),
        (
            "compute.trustedImageProjects", allowed("projects/ours"),
            {"image": "projects/ours/global/images/gold"}, "ok",
        ),
        ("gcp.resourceLocations", allowed("in:us-locations"), {}, "ok"),
        ("gcp.resourceLocations", allowed("in:us-central1-locations"), {}, "ok"),
        ("gcp.resourceLocations", allowed("us-central1"), {}, "ok"),
        ("gcp.resourceLocations", allowed("europe-west4", "in:europe-locations"), {}, "blocks"),
        ("gcp.resourceLocations", allowed("in:europe-locations"), {"region": LONDON}, "ok"),
        (
            "gcp.resourceLocations", allowed("in:eu-locations"), {"region": LONDON}, "unknown",
        ),
        ("gcp.resourceLocations", denied("us-central1", allow=("in:us-locations",)), {}, "blocks"),
        ("gcp.restrictNonCmekServices", denied("compute.googleapis.com"), {}, "blocks"),
        ("gcp.restrictNonCmekServices", denied("is:storage.googleapis.com"), {}, "blocks"),
        (
            "gcp.restrictNonCmekServices", denied("storage.googleapis.com"), {"bucket": "false"},
            "ok",
        ),
        ("iam.disableServiceAccountCreation", ON, {}, "blocks"),
        ("iam.disableServiceAccountCreation", ON, {"bucket": "false"}, "ok"),
    ],
)  # fmt: skip
def test_a_policy_is_evaluated_as_google_does(
    compute: Lists, constraint: str, policy: Any, config: dict[str, str], state: str
) -> None:
    compute.policies = {constraint: policy}
    by_name = checks(compute, **{"name": "gpu", **config})
    name = f"policy {constraint.partition('.')[2]}"
    assert [n for n, check in by_name.items() if check.state != "ok"] == [name] * (state != "ok")
    assert by_name[name].state == state and bool(by_name[name].next) is (state != "ok")


@pytest.mark.parametrize(
    ("managed", "rule", "config", "state"),
    [
        ("compute.managed.vmExternalIpAccess", {"enforce": True}, {}, "blocks"),
        ("compute.managed.vmExternalIpAccess", {"enforce": False}, {}, "ok"),
        (
            "compute.managed.vmExternalIpAccess", {"enforce": True, "parameters": {"x": ["y"]}},
            {}, "unknown",
        ),
        ("compute.managed.requireOsLogin", {"enforce": True}, {}, "blocks"),
        ("compute.managed.requireOsLogin", {"enforce": True}, {"oslogin": "true"}, "ok"),
        ("compute.managed.disableGuestAttributesAccess", {"enforce": True}, {}, "blocks"),
        ("iam.managed.disableServiceAccountCreation", {"enforce": True}, {}, "blocks"),
        ("iam.managed.disableServiceAccountCreation", {"enforce": True}, {"bucket": "false"}, "ok"),
    ],
)  # fmt: skip
def test_a_managed_constraint_counts_as_its_older_form(
    compute: Lists, managed: str, rule: Any, config: dict[str, str], state: str
) -> None:
    """A new organisation has them; the older API does not show them."""
    compute.managed = {managed: rule}
    name = f"policy {managed.rpartition('.')[2]}"
    assert checks(compute, **config)[name].state == state


@pytest.mark.parametrize(
    ("why", "command"),
    [
        ("The caller does not have permission", "roles/orgpolicy.policyViewer"),
        (
            "Cloud Resource Manager API has not been used in project 1 before or it is disabled",
            "gcloud services enable cloudresourcemanager.googleapis.com --project p-12345",
        ),
    ],
)
def test_policies_that_are_not_shown_are_unknown_with_who_can_read_them(
    compute: Lists, why: str, command: str
) -> None:
    compute.no_policies = why
    policies = {n: check for n, check in checks(compute).items() if n.startswith("polic")}
    assert {check.state for check in policies.values()} == {"unknown"} and len(policies) == 8
    assert command in policies["policy resourceLocations"].next
    enable = "gcloud services enable orgpolicy.googleapis.com"
    assert (enable in policies["policies managed"].next) is ("disabled" in why)


def test_the_default_image_is_that_of_the_stacks() -> None:
    for machine in gcp_types.NAMES:
        for gpu in (None, *gcp_types.GPU_LIMITS) if machine in gcp_types.N1 else (None,):
            config = {"machine_type": machine} | ({"gpu_type": gpu} if gpu else {})
            image = gcp_rules.default_image({"gpu_type": None, **config})
            project = policies.project_of_image(StackRequest("gcp", config))
            assert project == f"projects/{FAMILIES[image][0]}", (machine, gpu)


def test_rights_that_a_stack_can_do_without_are_not_missed(compute: Lists) -> None:
    compute.missing = {"compute.networks.create", "compute.subnetworks.delete"}
    assert checks(compute, network="shared")["rights"].state == "ok"
    assert checks(compute)["rights"].state == "blocks"
    compute.missing = {"orgpolicy.policy.get"}
    assert checks(compute)["rights"].state == "ok"


def test_a_full_quota_of_networks_blocks_unless_one_is_named(compute: Lists) -> None:
    compute.quotas = {"global": {"NETWORKS": (5.0, 5.0)}}
    assert checks(compute)["quota NETWORKS"].state == "blocks"
    assert "quota NETWORKS" not in checks(compute, network="default")


def test_without_access_only_the_credentials_are_reported(compute: Lists) -> None:
    compute.denied = (403, "forbidden")
    assert [(c.name, c.state) for c in checks(compute).values()] == [("credentials", "blocks")]


def test_a_config_without_a_project_is_refused_first(compute: Lists) -> None:
    assert checks(compute, project="")["project"].next.startswith(f"{SET} project ")
    assert not compute.requests
