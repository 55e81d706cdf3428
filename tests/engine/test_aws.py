"""A cluster on AWS through all its life: the real engine, and moto says what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from draws import drawn
from engine.aws import INSTANCE, OnAws, tags
from engine.stack import Stack
from standins.aws.cloud import Cloud
from standins.aws.provider import serve

RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
QUOTA = "aws:servicequotas/serviceQuota:ServiceQuota"
STASH = "pulumi:index:Stash"


def test_a_cluster_from_its_preview_to_its_end(aws: OnAws) -> None:
    seen = aws.stack.preview().ended(0, "have 256, used by others 0, need 8 vCPU")
    assert set(seen.summary) == {"create"} and not aws.instances(), "a preview makes nothing"
    up = aws.stack.up().ended(0)
    assert up.summary == seen.summary
    check_what_aws_shows(aws)
    check_that_an_up_weeks_later_changes_nothing(aws)
    check_that_a_bucket_with_results_stays_and_nothing_else(aws)
    aws.stack.up().ended(0)
    document = aws.stack.output()["cluster"]
    empty_bucket(aws, document["bucket"])
    aws.stack.destroy().ended(0)
    check_nothing_is_left(aws)


def check_what_aws_shows(aws: OnAws) -> None:
    document = aws.stack.output()["cluster"]
    hosts = aws.instances("running")
    assert [one["InstanceId"] for one in hosts] == [one["id"] for one in document["hosts"]]
    for one, output in zip(hosts, document["hosts"], strict=True):
        assert output["address"] == one["PublicIpAddress"]
        assert output["peer_address"] == one["PrivateIpAddress"]
        check_machine(aws, one)
    check_doors(aws, hosts[0])
    check_bucket(aws, document["bucket"].removeprefix("s3://"))
    deadlines = {one["id"]: one for one in document["deadlines"]}
    assert [one["host"] for one in deadlines.values()] == ["g4dn-1", "g4dn-2"]
    for schedule, one in zip(aws.schedules(), hosts, strict=True):
        assert json.loads(schedule["Target"]["Input"]) == {"InstanceIds": [one["InstanceId"]]}
        assert schedule["ScheduleExpression"] == f"at({deadlines[schedule['Name']]['at'][:-1]})"


def check_machine(aws: OnAws, one: dict[str, Any]) -> None:
    ec2 = aws.cloud.client("ec2")
    assert tags(one) == {**aws.tags, "Name": tags(one)["Name"]}
    assert one["MetadataOptions"]["HttpTokens"] == "required"
    assert one["KeyName"] and one["IamInstanceProfile"] and len(aws.cloud.extra.groups) == 1
    requests = [{"Name": "attachment.instance-id", "Values": [one["InstanceId"]]}]
    (disk,) = ec2.describe_volumes(Filters=requests)["Volumes"]
    assert disk["Encrypted"] and disk["VolumeType"] == "gp3" and disk["Size"] == 100
    assert tags(disk) == {**aws.tags, "Name": tags(one)["Name"]}
    options = {"InstanceId": one["InstanceId"], "Attribute": "instanceInitiatedShutdownBehavior"}
    output = ec2.describe_instance_attribute(**options)
    assert output["InstanceInitiatedShutdownBehavior"] == {"Value": "stop"}


def check_doors(aws: OnAws, one: dict[str, Any]) -> None:
    """As the cloud has them: every group of the network, the one that AWS made too."""
    requests = [{"Name": "vpc-id", "Values": [one["VpcId"]]}]
    ec2 = aws.cloud.client("ec2")
    groups = ec2.describe_security_groups(Filters=requests)["SecurityGroups"]
    (ours,) = [g for g in groups if g["GroupName"] != "default"]
    (default,) = [g for g in groups if g["GroupName"] == "default"]
    assert not default["IpPermissions"] and not default["IpPermissionsEgress"]
    ways = {
        (p.get("FromPort"), cidr["CidrIp"]) for p in ours["IpPermissions"] for cidr in p["IpRanges"]
    }
    assert ways == {(22, "203.0.113.7/32")}
    (among,) = [p for p in ours["IpPermissions"] if p["UserIdGroupPairs"]]
    assert among["UserIdGroupPairs"][0]["GroupId"] == ours["GroupId"]
    (table,) = [
        t
        for t in ec2.describe_route_tables(Filters=requests)["RouteTables"]
        if "Tags" in t and t["Tags"]
    ]
    out = {r.get("DestinationCidrBlock"): r.get("GatewayId", "") for r in table["Routes"]}
    assert out["0.0.0.0/0"].startswith("igw-")


def check_bucket(aws: OnAws, name: str) -> None:
    s3 = aws.cloud.client("s3")
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    block = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True} and len(block) == 4
    (rule,) = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    life, checkpoints = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
    assert life["NoncurrentVersionExpiration"] and life["AbortIncompleteMultipartUpload"]
    assert checkpoints["Filter"] == {"Tag": {"Key": "railhead", "Value": "checkpoint"}}
    assert checkpoints["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    (refusal,) = json.loads(s3.get_bucket_policy(Bucket=name)["Policy"])["Statement"]
    assert refusal["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    values = {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=name)["TagSet"]}
    assert values == aws.tags


def check_nothing_is_left(aws: OnAws) -> None:
    """Of all that a cluster is made of; the default VPC is AWS's own."""
    ec2, iam = aws.cloud.client("ec2"), aws.cloud.client("iam")
    assert not aws.instances() and not aws.schedules() and not aws.cloud.extra.groups
    assert [v["IsDefault"] for v in ec2.describe_vpcs()["Vpcs"]] == [True]
    assert not ec2.describe_key_pairs()["KeyPairs"]
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    assert {one["State"] for one in endpoints} <= {"deleted"}
    assert not iam.list_roles()["Roles"] and not iam.list_instance_profiles()["InstanceProfiles"]
    assert not aws.cloud.client("s3").list_buckets()["Buckets"]
    assert aws.stack.resources() == []


def check_that_an_up_weeks_later_changes_nothing(aws: OnAws) -> None:
    """The machines stopped, their deadline passed and was armed anew, their image was renewed,
    and a colleague checks whether all is as it should be."""
    aws.cloud.extra.image = "ami-0fedcba9876543210"
    before = [one["InstanceId"] for one in aws.instances()]
    aws.stack.up("--expect-no-changes").ended(0, "keeps its image ami-0123456789abcdef0")
    aws.cloud.client("ec2").stop_instances(InstanceIds=before)
    for schedule in aws.schedules():
        keys = ("Name", "Description", "Target", "FlexibleTimeWindow")
        kept = {key: schedule[key] for key in keys}
        aws.cloud.client("scheduler").update_schedule(
            **kept, ScheduleExpression="at(2031-02-03T04:05:06)", ScheduleExpressionTimezone="UTC"
        )
    aws.stack.refresh().ended(0)
    aws.stack.up("--expect-no-changes").ended(0)
    assert [one["InstanceId"] for one in aws.instances("stopped")] == before
    assert {one["ScheduleExpression"] for one in aws.schedules()} == {"at(2031-02-03T04:05:06)"}
    deadlines = aws.stack.output()["cluster"]["deadlines"]
    assert [one["at"] for one in deadlines] == ["2031-02-03T04:05:06Z"] * 2


def check_that_a_bucket_with_results_stays_and_nothing_else(aws: OnAws) -> None:
    """The next `up` uses it again."""
    s3, name = aws.cloud.client("s3"), aws.stack.output()["cluster"]["bucket"].removeprefix("s3://")
    s3.put_object(Bucket=name, Key="runs/1/result.json", Body=b"{}")
    aws.stack.destroy().ended(1, "BucketNotEmpty")
    remaining = {one["type"] for one in aws.stack.resources()}
    parts = {"pulumi:pulumi:Stack", "railhead:aws:Cluster", "railhead:aws:Bucket"}
    assert remaining - parts == {
        "aws:s3/bucket:Bucket",
        "pulumi:providers:aws",
        "pulumi:providers:pulumi",
        STASH,
    }, "the id stays with the bucket that has it"
    assert not aws.instances() and not aws.schedules()
    check_bucket(aws, name)


def empty_bucket(aws: OnAws, uri: str) -> None:
    """Of all versions; LookupError if it has none: then it is not the one of before."""
    s3, name = aws.cloud.client("s3"), uri.removeprefix("s3://")
    for one in s3.list_object_versions(Bucket=name)["Versions"]:
        s3.delete_object(Bucket=name, Key=one["Key"], VersionId=one["VersionId"])


def test_a_change_changes_what_was_reported_and_no_more(aws: OnAws) -> None:
    aws.stack.up().ended(0)
    first = [one["InstanceId"] for one in aws.instances()]
    aws.stack.config(ssh_cidrs="198.51.100.0/24")
    seen = aws.stack.up().ended(0)
    assert {(step.op, step.type) for step in seen.steps} == {("create", RULE), ("delete", RULE)}
    aws.stack.config(count=3)
    grown = aws.stack.up().ended(0)
    assert [one["InstanceId"] for one in aws.instances()][:2] == first
    assert len(aws.schedules()) == 3
    kinds = sorted((step.op, step.type.rsplit(":", 1)[-1]) for step in grown.steps)
    assert kinds == [("create", k) for k in ("Host", "Instance", "Schedule")], (
        "no other deadline moves"
    )
    aws.stack.config(owner="bob")
    assert {step.op for step in aws.stack.up().ended(0).steps} == {"update"}
    assert all(tags(one)["railhead:owner"] == "bob" for one in aws.instances())
    check_that_a_stack_from_before_ids_gets_one(aws)


def check_that_a_stack_from_before_ids_gets_one(aws: OnAws) -> None:
    """And keeps its machines."""
    before = [one["InstanceId"] for one in aws.instances()]
    state = json.loads(aws.stack.run("stack", "export", "--stack", "g4dn").ended(0).text)
    resources = state["deployment"]["resources"]
    old = json.loads(without_id(json.dumps([r for r in resources if r["type"] != STASH])))
    for one in old:
        others = [urn for urn in one.get("dependencies") or () if f"{STASH}::" not in urn]
        by_property = one.get("propertyDependencies") or {}
        one["dependencies"] = others
        one["propertyDependencies"] = {
            key: [u for u in urns or () if f"{STASH}::" not in u]
            for key, urns in by_property.items()
        }
    state["deployment"]["resources"] = old
    (aws.stack.folder / "old.json").write_text(json.dumps(state))
    aws.stack.run("stack", "import", "--stack", "g4dn", "--file", "old.json").ended(0)
    aws.cloud.client("ec2").delete_tags(Resources=before, Tags=[{"Key": "railhead:id"}])
    assert not [r for r in aws.stack.resources() if r["type"] == STASH]
    up = aws.stack.up().ended(0)
    assert {step.op for step in up.steps if step.type.startswith("aws:")} == {"update"}
    assert [one["InstanceId"] for one in aws.instances()] == before
    assert {tags(one)["railhead:id"] for one in aws.instances()} == {aws.id}
    aws.stack.up("--expect-no-changes").ended(0)


def without_id(text: str) -> str:
    """A state without the tag of the id."""
    return re.sub(r'"railhead:id": "[0-9a-f]+",? ?', "", text).replace(", }", "}")


def test_another_count_or_placement_replaces_no_machine(aws: OnAws) -> None:
    """Its disk may have results and checkpoints."""
    aws.stack.config(count=1, bucket=False).up().ended(0)
    check_that_data_is_read_with_a_role_that_comes_later(aws)
    (first,) = (one["InstanceId"] for one in aws.instances())
    for changes in ({"count": 3}, {"placement": False}, {"count": 1}):
        aws.stack.config(**changes).up().ended(0)
        assert aws.instances()[0]["InstanceId"] == first, changes
    aws.stack.config(count=2).up().ended(0)  # the second is made outside of the group
    groups = {aws.cloud.extra.placed[one["InstanceId"]] for one in aws.instances()}
    assert len(groups) == 2 and "" in groups
    before = [one["InstanceId"] for one in aws.instances()]
    aws.stack.config(placement=None).up().ended(0, "g4dn-2 stays outside of the placement group")
    assert [one["InstanceId"] for one in aws.instances()] == before
    aws.stack.destroy().ended(0)
    check_nothing_is_left(aws)


def check_that_data_is_read_with_a_role_that_comes_later(aws: OnAws) -> None:
    """Of other buckets; the machine gets it and stays."""
    iam = aws.cloud.client("iam")
    assert not iam.list_instance_profiles()["InstanceProfiles"]
    first = [one["InstanceId"] for one in aws.instances()]
    aws.stack.config(data_buckets="s3://images/v1").up().ended(0)
    (host,) = aws.instances()
    assert [host["InstanceId"]] == first and host["IamInstanceProfile"], "the machine stays"
    (role,) = [r["RoleName"] for r in iam.list_roles()["Roles"] if "-host-" in r["RoleName"]]
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    rights = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]["Statement"]
    listing, reading = rights
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["v1/*"]}}
    assert reading["Resource"] == ["arn:aws:s3:::images/v1", "arn:aws:s3:::images/v1/*"]


def test_what_the_cloud_would_refuse_is_refused_at_preview(aws: OnAws) -> None:
    """Nothing is made: what others use of a quota, an image, a disk, settings without effect."""
    aws.stack.preview().ended(0, "account 123456789012, region us-east-1, as arn:aws:sts::")
    aws.cloud.extra.quotas["L-DB2E81BA"] = 8
    image = aws.cloud.extra.image
    other = aws.cloud.client("ec2").run_instances(
        ImageId=image, InstanceType="g5.xlarge", MinCount=1, MaxCount=1
    )["Instances"][0]["InstanceId"]
    aws.stack.preview().ended(1, "have 8, used by others 4, need 8 vCPU", "quotas request")
    aws.stack.config(count=1).preview().ended(0, "have 8, used by others 4, need 4 vCPU")
    aws.cloud.client("ec2").terminate_instances(InstanceIds=[other])
    gone = aws.stack.config(image="ami-0aaaaaaaaaaaaaaaa").preview()
    gone.ended(
        1, "image: ami-0aaaaaaaaaaaaaaaa is not in us-east-1", "pulumi config rm --stack g4dn image"
    )
    small = aws.stack.config(image=None, disk_gb=60).preview()
    small.ended(
        1, "disk_gb: 60 is less than the 75 GB", "pulumi config set --stack g4dn disk_gb 75"
    )
    aws.stack.config(**{"disk_gb": None, "aws:profile": "work", "ssh_cidrs": "10.0.0.1/32"})
    both = aws.stack.preview().ended(1, "export AWS_PROFILE=work", "10.0.0.1/32 is private")
    assert "Traceback" not in both.text + gone.text + small.text
    assert not aws.instances() and not aws.schedules()


def test_a_cluster_without_gpus(aws: OnAws) -> None:
    aws.stack.config(machine_type="m7i.large", count=1).up().ended(0, "L-1216C47A")
    (host,) = aws.stack.output()["cluster"]["hosts"]
    assert (host["slots"], host["gpu"]) == (1, None)
    assert [one["InstanceType"] for one in aws.instances()] == ["m7i.large"]
    aws.stack.destroy().ended(0)
    check_nothing_is_left(aws)


REFUSALS = [
    ("InsufficientInstanceCapacity", "We currently do not have sufficient g4dn.xlarge capacity"),
    ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit"),
    ("RequestLimitExceeded", "Request limit exceeded."),
]


def test_after_a_refusal_destroy_up_and_another_zone_work(aws: OnAws) -> None:
    """All from two machines of three; other zones are what `fab start` and the page advise."""
    refusal = drawn(REFUSALS)
    aws.provider.fail(INSTANCE, 3, *refusal)
    up = aws.stack.config(count=3).up().ended(1, *refusal)
    assert up.problems and len(aws.instances()) == 2
    aws.stack.destroy().ended(0)
    check_nothing_is_left(aws)

    aws.provider.fail(INSTANCE, aws.provider.created[INSTANCE] + 3, *REFUSALS[0])
    aws.stack.up().ended(1)
    first = set(aws.existing())
    aws.stack.up().ended(0)
    now = set(aws.existing())
    assert len(now) == 3 and len(first) == 2 and first < now, "it makes what was missing"

    aws.provider.fail(INSTANCE, aws.provider.created[INSTANCE] + 1, *REFUSALS[0])
    aws.stack.config(count=4).up().ended(1)
    aws.stack.config(zones="us-east-1c").up().ended(0)
    assert [one["Placement"]["AvailabilityZone"] for one in aws.instances()] == ["us-east-1c"] * 4
    aws.stack.up("--expect-no-changes").ended(0)


def test_too_small_a_quota_is_requested_and_then_used(aws: OnAws) -> None:
    aws.cloud.extra.quotas["L-DB2E81BA"] = 4
    done = aws.stack.up().ended(
        1, "have 4, used by others 0, need 8 vCPU", "pulumi config set --stack g4dn quotas request"
    )
    assert "Traceback" not in done.text
    assert not [one for one in aws.stack.resources() if one["type"].startswith("aws:")]
    aws.stack.config(quotas="request")
    assert {step.type for step in aws.stack.up().ended(0).steps} >= {QUOTA}
    assert [r["DesiredValue"] for r in aws.cloud.extra.requests] == [8.0]
    aws.stack.up("--expect-no-changes").ended(0)
    assert not aws.instances() and len(aws.cloud.extra.requests) == 1
    aws.cloud.extra.quotas["L-DB2E81BA"] = 8
    aws.stack.up().ended(1, "there is nothing to request")
    aws.stack.config(quotas=None).up().ended(0)
    assert len(aws.instances()) == 2 and aws.cloud.extra.quotas["L-DB2E81BA"] == 8
    aws.cloud.extra.quotas["L-DB2E81BA"] = 4  # a count that grew since, say
    aws.stack.config(quotas="request").up().ended(1, "would destroy the machines")
    assert len(aws.instances()) == 2


def test_without_the_right_to_read_a_quota_it_is_unknown(aws: OnAws) -> None:
    aws.provider.denied.add("aws:servicequotas/getServiceQuota:getServiceQuota")
    aws.stack.preview().ended(0, "have unknown", "AccessDenied")
    aws.provider.denied.add("aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings")
    done = aws.stack.preview().ended(1, "it needs the permission ec2:DescribeInstanceTypeOfferings")
    assert "Traceback" not in done.text


def test_a_retired_type_names_another_before_anything_is_made(aws: OnAws) -> None:
    aws.stack.config(machine_type="p3.8xlarge")
    aws.stack.preview().ended(0, "p3.8xlarge is retired", "g4dn.12xlarge")
    aws.cloud.extra.retired.add("p3.8xlarge")
    done = aws.stack.up().ended(1, "pulumi config set --stack g4dn machine_type g4dn.12xlarge")
    assert not done.steps or {step.type.split(":")[0] for step in done.steps} == {"pulumi"}


PROGRAM = """
import pulumi, pulumi_aws as aws
kind = pulumi.Config().require("kind")
if kind == "type":
    aws.ec2.Eip("one")
if kind == "input":
    aws.ec2.Vpc("one", cidr_block="10.0.0.0/16", instance_tenancy="dedicated")
if kind == "invoke":
    aws.get_billing_service_account()
"""


@pytest.mark.parametrize("unknown", ["type", "input", "invoke"])
def test_the_stand_in_knows_its_limits(
    engine: Path, tmp_path: Path, cloud: Cloud, unknown: str
) -> None:
    """Else a typo, or a resource that nobody has thought of, would pass unseen."""
    with serve(cloud) as (_, port):
        stack = Stack(engine, tmp_path / "p", providers={"aws": port}, program=PROGRAM)
        stack.config(kind=unknown).up().ended(1, "the stand-in does not know")


def test_moto_refuses_what_aws_refuses(cloud: Cloud) -> None:
    """The additions are held to AWS's own words."""
    cloud.reset()
    quotas, ec2 = cloud.client("service-quotas"), cloud.client("ec2")
    options = {"ServiceCode": "ec2", "QuotaCode": "L-DB2E81BA"}
    with pytest.raises(ClientError, match="IllegalArgument"):
        quotas.request_service_quota_increase(**options, DesiredValue=256.0)
    with pytest.raises(ClientError, match="NoSuchResource"):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")
    ec2.create_placement_group(GroupName="g", Strategy="cluster")
    with pytest.raises(ClientError, match="Duplicate"):
        ec2.create_placement_group(GroupName="g", Strategy="cluster")
    assert ec2.describe_placement_groups(GroupNames=["g"])["PlacementGroups"][0]["Strategy"]
    ec2.delete_placement_group(GroupName="g")
    with pytest.raises(ClientError, match="Unknown"):
        ec2.describe_placement_groups(GroupNames=["g"])
