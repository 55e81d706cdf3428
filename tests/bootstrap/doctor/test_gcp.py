"""What Google Cloud allows this user, against the stand-in for its APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from standins.gcp.compute import Compute

from bootstrap.clouds.gcp import examiner
from bootstrap.clouds.gcp.client import OVERRIDE, GoogleClient
from bootstrap.clouds.request import StackRequest
from railhead.documents.doctor import Check

SET = "pulumi config set --stack dev"
CONFIG = {"cloud": "gcp", "project": "p-12345"}


class Session(requests.Session):
    """A session of google-auth, as far as it is looked at."""

    class credentials:
        service_account_email = "me@p-12345.iam.gserviceaccount.com"


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compute]:
    cloud = Compute()
    server = cloud.serve()
    monkeypatch.setenv(f"{OVERRIDE}CLOUDRESOURCEMANAGER", cloud.root)
    yield cloud
    server.shutdown()
    server.server_close()


def checks(compute: Compute, **config: str) -> dict[str, Check]:
    client = GoogleClient(Session(), compute=compute.base)
    request = StackRequest("gcp", CONFIG | config, stack="dev")
    return {check.name: check for check in examiner.checks(request, client)}


def test_a_user_with_all_rights_is_not_stopped(compute: Compute) -> None:
    found = checks(compute)
    assert {check.state for check in found.values()} == {"ok"}
    assert "me@p-12345.iam" in found["credentials"].evidence


def test_missing_permissions_are_named(compute: Compute) -> None:
    compute.missing = {"compute.instances.create", "storage.buckets.create"}
    assert "storage.buckets.create" in checks(compute)["rights"].evidence
    assert checks(compute)["rights"].state == "blocks"
    without = checks(compute, bucket="false")["rights"]
    assert "compute.instances.create" in without.evidence
    assert "storage" not in without.evidence


@pytest.mark.parametrize(
    ("constraint", "policy", "mended"),
    [
        ("vmExternalIpAccess", {"listPolicy": {"allValues": "DENY"}}, {}),
        ("requireOsLogin", {"booleanPolicy": {"enforced": True}}, {"oslogin": "true"}),
        ("disableGuestAttributesAccess", {"booleanPolicy": {"enforced": True}}, {}),
        ("trustedImageProjects", {"listPolicy": {"allowedValues": ["projects/ours"]}}, {}),
    ],
)
def test_a_policy_of_the_organisation_that_prevents_a_stack_blocks(
    compute: Compute, constraint: str, policy: Any, mended: dict[str, str]
) -> None:
    compute.policies = {f"compute.{constraint}": policy}
    states = {name: check.state for name, check in checks(compute).items()}
    assert [name for name, state in states.items() if state != "ok"] == [f"policy {constraint}"]
    if mended:
        assert checks(compute, **mended)[f"policy {constraint}"].state == "ok"


@pytest.mark.parametrize(
    ("allowed", "image", "state"),
    [
        ("projects/ubuntu-os-cloud", "ubuntu-2204", "ok"),
        ("is:projects/ubuntu-os-cloud", "ubuntu-2204", "ok"),
        ("projects/ours", "projects/ours/global/images/gold", "ok"),
        ("under:folders/12", "ubuntu-2204", "ok"),
        ("projects/ours", "ubuntu-2204", "blocks"),
        ("projects/ubuntu-os-cloud", "dlvm-cu129-ubuntu-2204", "blocks"),
    ],
)
def test_only_the_project_of_the_image_must_be_trusted(
    compute: Compute, allowed: str, image: str, state: str
) -> None:
    compute.policies = {
        "compute.trustedImageProjects": {"listPolicy": {"allowedValues": [allowed]}}
    }
    assert checks(compute, image=image)["policy trustedImageProjects"].state == state


def test_rights_that_a_stack_can_do_without_are_not_missed(compute: Compute) -> None:
    compute.missing = {"compute.networks.create", "compute.subnetworks.delete"}
    assert checks(compute, network="shared")["rights"].state == "ok"
    assert checks(compute)["rights"].state == "blocks"
    compute.missing = {"orgpolicy.policy.get"}
    assert checks(compute)["rights"].state == "ok"


def test_a_full_quota_of_networks_blocks_unless_one_is_named(compute: Compute) -> None:
    compute.quotas = {"NETWORKS": (5.0, 5.0)}
    assert checks(compute)["quota NETWORKS"].state == "blocks"
    assert "quota NETWORKS" not in checks(compute, network="default")


def test_without_access_only_the_credentials_are_reported(compute: Compute) -> None:
    compute.denied = (403, "forbidden")
    assert [(c.name, c.state) for c in checks(compute).values()] == [("credentials", "blocks")]


def test_a_config_without_a_project_is_refused_first(compute: Compute) -> None:
    assert checks(compute, project="")["project"].next.startswith(f"{SET} project ")
    assert not compute.requests
