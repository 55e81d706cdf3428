"""What AWS allows this user, against moto with a simulation of policies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import boto3
import pytest
from standins.aws import moto_plus
from standins.aws.account import account

from bootstrap.clouds.aws import examiner
from bootstrap.clouds.aws.examiner import Identity, _credentials, _principal
from bootstrap.clouds.examination import clock_check
from bootstrap.clouds.request import StackRequest
from railhead.documents.doctor import Check

REQUEST = StackRequest("aws", {"cloud": "aws"}, stack="dev")
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with account():
        yield


def checks(request: StackRequest = REQUEST) -> dict[str, Check]:
    return {check.name: check for check in examiner.checks(request)}


def test_a_user_with_all_rights_is_not_stopped() -> None:
    states = {name: check.state for name, check in checks().items()}
    assert {states[name] for name in ("credentials", "region", "rights", "quota VPCs")} == {"ok"}
    assert "blocks" not in states.values()


def test_missing_rights_are_named_with_the_document_for_an_administrator() -> None:
    moto_plus.extra.denied = {"ec2:RunInstances", "scheduler:CreateSchedule"}
    check = checks()["rights"]
    assert check.state == "blocks" and check.next.startswith("fab doctor --policy")
    assert "ec2:RunInstances, scheduler:CreateSchedule" in check.evidence


def test_a_right_that_a_stack_does_not_need_is_not_missed() -> None:
    moto_plus.extra.denied = {"s3:CreateBucket", "servicequotas:RequestServiceQuotaIncrease"}
    without_bucket = StackRequest("aws", {"bucket": "false"})
    assert checks(without_bucket)["rights"].state == "ok"
    assert checks()["rights"].state == "blocks"


def test_an_action_that_the_organisation_refuses_has_its_own_row() -> None:
    moto_plus.extra.by_organization = {"ec2:CreateVpc"}
    assert checks()["organisation"].state == "blocks" and checks()["rights"].state == "ok"


def test_without_the_right_to_simulate_ec2_answers_dry_runs() -> None:
    moto_plus.extra.no_simulation = True
    check = checks()["rights"]
    assert check.state == "unknown" and "SimulatePrincipalPolicy" in check.evidence


def test_a_full_quota_of_vpcs_names_an_existing_network() -> None:
    moto_plus.extra.vpcs = 1.0  # the default VPC
    check = checks()["quota VPCs"]
    assert check.state == "blocks" and check.evidence == "have 1, used 1, need 1"
    assert check.next.startswith("pulumi config set --stack dev network ")
    assert "quota VPCs" not in checks(StackRequest("aws", {"network": "vpc-1"}))
    with_network = StackRequest("aws", {}, frozenset({examiner.NETWORK}))
    assert "quota VPCs" not in checks(with_network), "the stack has its VPC already"


def test_without_credentials_nothing_else_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    (check,) = examiner.checks(REQUEST)
    assert (check.name, check.state) == ("credentials", "blocks") and "aws sso login" in check.next


def test_the_policies_of_an_assumed_role_are_those_of_the_role() -> None:
    def client(service: str, operation: str, **parameters: str) -> object:
        assert (service, operation) == ("iam", "get_role")
        return {"Role": {"Arn": f"arn:aws:iam::1:role/team/{parameters['RoleName']}"}}

    session = Identity("1", "arn:aws:sts::1:assumed-role/admin/ann@example.com")
    assert _principal(session, client) == "arn:aws:iam::1:role/team/admin"
    user = Identity("1", "arn:aws:iam::1:user/ann")
    assert _principal(user, client) == "arn:aws:iam::1:user/ann"


@pytest.mark.parametrize(
    ("minutes", "state"), [(None, "ok"), (61, "ok"), (59, "warns"), (1, "warns")]
)
def test_credentials_that_expire_within_an_hour_warn(minutes: int | None, state: str) -> None:
    end = None if minutes is None else NOW + timedelta(minutes=minutes)
    assert _credentials(Identity("1", "arn"), end, NOW).state == state


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(0, "ok"), (-29, "ok"), (31, "warns"), (-200, "warns"), (241, "blocks"), (-3600, "blocks")],
)
def test_a_wrong_clock_is_found(seconds: int, state: str) -> None:
    header = format_datetime(NOW - timedelta(seconds=seconds))
    assert clock_check(header, NOW).state == state
    assert clock_check(None, NOW).state == clock_check("soon", NOW).state == "unknown"


@pytest.mark.parametrize(
    ("mode", "network", "state"),
    [
        ("off", "", "ok"),
        ("block-ingress", "", "blocks"),
        ("block-bidirectional", "", "blocks"),
        ("block-bidirectional", "vpc-1", "warns"),
    ],
)
def test_an_account_that_blocks_public_machines_is_named(
    mode: str, network: str, state: str
) -> None:
    """Nobody would reach the machines, which run. An existing VPC may be excluded."""
    moto_plus.extra.public_access = mode
    config = {"network": network} if network else {}
    check = checks(StackRequest("aws", config))["public machines"]
    assert check.state == state and bool(check.next) == (state != "ok")
    assert state == "ok" or mode in check.evidence


@pytest.mark.parametrize(
    ("key", "state"),
    [("aws", "ok"), ("own", "ok"), ("disabled", "blocks"), ("of another account", "unknown")],
)
def test_a_key_of_disks_that_cannot_be_used_is_named(key: str, state: str) -> None:
    """EC2 ends a machine as it starts, and says so nowhere."""
    kms = boto3.client("kms", region_name="us-east-1")
    if key == "of another account":
        moto_plus.extra.disk_key = "arn:aws:kms:us-east-1:999999999999:key/0a1b"
    elif key != "aws":
        made = kms.create_key()["KeyMetadata"]
        moto_plus.extra.disk_key = made["Arn"]
        if key == "disabled":
            kms.disable_key(KeyId=made["KeyId"])
    assert checks()["key of disks"].state == state
