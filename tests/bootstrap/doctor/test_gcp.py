"""What Google Cloud allows this user, against the stand-in for its APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from standins.gcp.compute import Compute

from bootstrap.clouds.gcp import examiner
from bootstrap.clouds.gcp.client import GoogleClient
from bootstrap.clouds.request import StackRequest
from railhead.documents.doctor import Check

CONFIG = {"cloud": "gcp", "project": "p-12345"}


class Session(requests.Session):
    """A session of google-auth, as far as it is looked at."""

    class credentials:
        service_account_email = "me@p-12345.iam.gserviceaccount.com"


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compute]:
    cloud = Compute()
    server = cloud.serve()
    monkeypatch.setenv(examiner.ENDPOINT, cloud.root)
    yield cloud
    server.shutdown()
    server.server_close()


def checks(compute: Compute, **config: str) -> dict[str, Check]:
    client = GoogleClient(Session(), compute=compute.base)
    request = StackRequest("gcp", CONFIG | config)
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


def test_a_full_quota_of_networks_blocks_unless_one_is_named(compute: Compute) -> None:
    compute.quotas = {"NETWORKS": (5.0, 5.0)}
    assert checks(compute)["quota NETWORKS"].state == "blocks"
    assert "quota NETWORKS" not in checks(compute, network="default")


def test_without_access_only_the_credentials_are_reported(compute: Compute) -> None:
    compute.denied = (403, "forbidden")
    assert [(c.name, c.state) for c in checks(compute).values()] == [("credentials", "blocks")]


def test_a_config_without_a_project_is_refused_first(compute: Compute) -> None:
    assert checks(compute, project="")["project"].next.startswith("pulumi config set project ")
    assert not compute.requests
