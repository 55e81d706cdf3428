"""What a killed `pulumi up` left on AWS, against moto: removed by its id, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("boto3", reason="scripts/setup --stacks installs boto3")
pytest.importorskip("moto", reason="scripts/setup --dev installs moto")

from standins.aws import whole_cluster  # noqa: E402
from standins.aws.account import account, client  # noqa: E402

from bootstrap.clouds.aws import leftovers, scheduler  # noqa: E402
from bootstrap.clouds.aws.client import connect  # noqa: E402
from bootstrap.clouds.base import Refused  # noqa: E402
from bootstrap.clouds.machines import Place  # noqa: E402

PLACE = Place("aws", "us-east-1")
GOES = (
    "endpoint", "security group", "route table", "internet gateway", "key pair", "placement group"
)  # fmt: skip
OURS, THEIRS = "0a1b2c3d4e5f", "ffffffffffff"


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with account():
        yield client("ec2")


def network(ec2: Any, cluster_id: str) -> dict[str, str]:
    """A network, keys and a role as a stack makes them; their ids by kind."""
    name, tags = f"railhead-{cluster_id}", {"railhead:id": cluster_id}
    whole_cluster.role(name, tags)
    return whole_cluster.network(ec2, tags, name) | {"role": name}


def exist(ec2: Any) -> dict[str, list[str]]:
    """The ids that exist, of the kinds that a network has; without the default network's."""
    iam = client("iam")
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    return {
        "network": [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]],
        "subnet": [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"] if s.get("Tags")],
        "internet gateway": [
            g["InternetGatewayId"] for g in ec2.describe_internet_gateways()["InternetGateways"]
        ],
        "security group": [
            g["GroupId"]
            for g in ec2.describe_security_groups()["SecurityGroups"]
            if g["GroupName"] != "default"
        ],
        "endpoint": [e["VpcEndpointId"] for e in endpoints if e["State"] != "deleted"],
        "key pair": [k["KeyName"] for k in ec2.describe_key_pairs()["KeyPairs"]],
        "placement group": [
            g["GroupName"] for g in ec2.describe_placement_groups()["PlacementGroups"]
        ],
        "role": [r["RoleName"] for r in iam.list_roles()["Roles"]],
    }


def test_all_with_the_id_goes_and_what_others_have_stays(ec2: Any) -> None:
    ours, theirs = network(ec2, OURS), network(ec2, THEIRS)
    removed = leftovers.remove(PLACE, OURS)
    assert sorted(removed) == sorted(ours.values())
    assert exist(ec2) == {kind: [theirs[kind]] for kind in exist(ec2)}
    assert leftovers.remove(PLACE, OURS) == []


def test_what_aws_refuses_to_remove_stays_and_the_rest_goes(ec2: Any) -> None:
    """A machine of somebody else is in the network."""
    ours = network(ec2, OURS)

    def refuses(service: str, operation: str, **parameters: Any) -> Any:
        if operation in ("delete_subnet", "delete_vpc", "delete_role"):
            raise Refused(f"{operation}: DependencyViolation", "DependencyViolation")
        return connect("us-east-1")(service, operation, **parameters)

    removed = leftovers.remove(PLACE, OURS, refuses)
    assert sorted(removed) == sorted(ours[kind] for kind in GOES)


def test_schedules_of_machines_are_removed_by_name(ec2: Any) -> None:
    schedules = client("scheduler")
    for name in ("railhead-g4dn-i-1", "railhead-g4dn-i-2", "railhead-g4dn-2-i-1"):
        schedules.create_schedule(
            Name=name,
            ScheduleExpression="at(2031-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances", "RoleArn": "arn:r"},
        )
    assert scheduler.remove(PLACE, "g4dn", ["i-3", "i-1"]) == ["railhead-g4dn-i-1"]
    remaining = [schedule["Name"] for schedule in schedules.list_schedules()["Schedules"]]
    assert remaining == ["railhead-g4dn-2-i-1", "railhead-g4dn-i-2"]
