"""The AWS component: what it makes of a config, held against rules and not against its own code."""

from __future__ import annotations

import ipaddress
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from places import CASES

from stacks.aws import image, machine_types
from tests.stacks.aws.world import (
    INSTANCE,
    KEY,
    config,
    denied,
    made,
    policy,
    previewed,
    refuse,
    world,
)
from tests.stacks.mocks import CLUSTER_ID, STASH, Made

UNTAGGED = {
    "aws:ec2/route:Route",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
    "aws:s3/bucketPolicy:BucketPolicy",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    "aws:s3/bucketVersioning:BucketVersioning",
    "aws:scheduler/schedule:Schedule",
}
GOLDEN = CASES / "documents/cluster-aws.json"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
SCHEDULE = "aws:scheduler/schedule:Schedule"
BUCKET = "aws:s3/bucket:Bucket"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
SUBNET = "aws:ec2/subnet:Subnet"
EVERYBODY = {"0.0.0.0/0", "::/0"}
# One of every family, and all that AWS has retired.
FAMILIES = {name.partition(".")[0]: name for name in machine_types.TYPES}
TYPES = sorted({*FAMILIES.values(), *(n for n, it in machine_types.TYPES.items() if it.retired)})


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("network", [None, "vpc-0a1b2c3d"])
def test_22_is_open_to_the_operator_and_nothing_to_the_world(
    spot: bool, network: str | None
) -> None:
    """Rules of every kind, and none inside of a group, where they would not be seen here."""
    there = world(subnets={"us-east-1a": ["subnet-1"]})
    given: dict[str, Any] = {"network": network} if network else {}
    cluster = made(there, spot=spot, ssh_cidrs="203.0.113.7/32,2001:db8::7/128", **given)
    from_outside = [one.inputs for one in cluster.every(INGRESS)]
    cidrs = [(one.get("cidrIpv4") or one.get("cidrIpv6")) for one in from_outside]
    assert {it for it in cidrs if it} == {"203.0.113.7/32", "2001:db8::7/128"}
    for rule in from_outside:
        inside = rule.get("referencedSecurityGroupId") == rule["securityGroupId"]
        assert inside or (rule["fromPort"], rule["toPort"], rule["ipProtocol"]) == (22, 22, "tcp")
    assert not EVERYBODY & {it for it in cidrs if it}
    for one in cluster.resources:
        if one.type.endswith("ecurityGroup:SecurityGroup") or "defaultSecurityGroup" in one.type:
            assert not {"ingress", "egress"} & one.inputs.keys(), one.name
        assert one.type != "aws:ec2/securityGroupRule:SecurityGroupRule"


def test_everything_has_our_tags_through_the_one_provider() -> None:
    cluster = made()
    provider = cluster.one("pulumi:providers:aws")
    assert json.loads(provider.inputs["defaultTags"]) == {
        "tags": {"railhead:cluster": "c", "railhead:owner": "ann", "railhead:stack": "test"}
    }
    assert provider.inputs["region"] == "us-east-1"
    for one in cluster.resources:
        if one.type in cluster.kinds:
            assert one.provider.startswith(provider.urn), f"{one.name}: {one.provider}"
    # Default tags do not reach disks.
    for host in cluster.every(INSTANCE):
        disk = host.inputs["rootBlockDevice"]["tags"]
        assert disk["railhead:cluster"] == "c" and disk["railhead:owner"] == "ann"
        assert disk["railhead:id"] == CLUSTER_ID


def test_everything_with_tags_has_the_clusters_id() -> None:
    """Also what keeps its own tags; a first preview, where nothing is known, shows the same."""
    cluster = made()
    tagged = [one for one in cluster.resources if one.inputs.get("tags")]
    assert {one.inputs["tags"]["railhead:id"] for one in tagged} == {CLUSTER_ID}
    untagged = {one.type for one in cluster.resources if one.type in cluster.kinds} - {
        one.type for one in tagged
    }
    assert untagged == UNTAGGED
    kept = {one.name: one for one in cluster.every(STASH)}
    assert kept["cluster-id"].ignore_changes == ("input",)
    assert kept["price-per-machine"].inputs["input"]["per_hour"] == 0.526


@pytest.mark.parametrize("spot", [False, True])
def test_machines_have_encrypted_disks_and_metadata_only_by_token(spot: bool) -> None:
    for host in made(spot=spot, disk_gb=200, disk_mbps=1000).every(INSTANCE):
        disk, metadata = host.inputs["rootBlockDevice"], host.inputs["metadataOptions"]
        assert disk["encrypted"] is True and disk["volumeType"] == "gp3"
        assert disk["deleteOnTermination"] is True
        assert (disk["volumeSize"], disk["throughput"]) == (200, 1000)
        assert disk["throughput"] <= 0.25 * disk["iops"], "EBS refuses more MiB/s than that"
        assert metadata["httpTokens"] == "required" and metadata["httpPutResponseHopLimit"] == 1
        assert "PRIVATE KEY" not in host.inputs["userData"]


@pytest.mark.parametrize("mbps", [125, 250, 750, 751, 2000])
def test_throughput_has_the_iops_that_it_needs(mbps: int) -> None:
    disk = made(disk_mbps=mbps).every(INSTANCE)[0].inputs["rootBlockDevice"]
    assert disk["iops"] >= max(3000, 4 * mbps) and disk["iops"] <= 80_000


def test_spot_requests_are_one_time_and_terminate() -> None:
    cluster = made(spot=True, count=3)
    for host in cluster.every(INSTANCE):
        market = host.inputs["instanceMarketOptions"]
        assert market["marketType"] == "spot"
        assert market["spotOptions"] == {
            "spotInstanceType": "one-time",
            "instanceInterruptionBehavior": "terminate",
        }
        assert host.inputs["instanceInitiatedShutdownBehavior"] == "terminate"
    assert "aws:ec2/placementGroup:PlacementGroup" not in cluster.kinds
    assert "aws:ec2/spotInstanceRequest:SpotInstanceRequest" not in cluster.kinds


def test_on_demand_stops_and_stands_close_together() -> None:
    cluster = made(count=3)
    group = cluster.one("aws:ec2/placementGroup:PlacementGroup")
    assert group.inputs["strategy"] == "cluster"
    for host in cluster.every(INSTANCE):
        assert host.inputs["instanceInitiatedShutdownBehavior"] == "stop"
        assert "instanceMarketOptions" not in host.inputs
        assert host.inputs["placementGroup"]
    (apart,) = made(placement=False, count=1).every(INSTANCE)
    assert "placementGroup" not in apart.inputs


def test_the_hosts_role_reads_this_bucket_and_writes_only_runs() -> None:
    cluster = made()
    (mine,) = [one for one in cluster.every(ROLE_POLICY) if one.name == "bucket"]
    arn = "arn:mock:results"
    may = [
        (action, *statement["Resource"])
        for statement in policy(mine.inputs["policy"])
        for action in statement["Action"]
        if statement["Effect"] == "Allow"
    ]
    # A host that could write elsewhere could change the wheels that later machines install.
    assert may == [
        ("s3:ListBucket", arn),
        ("s3:GetObject", f"{arn}/*"),
        ("s3:PutObject", f"{arn}/runs/*"),
        ("s3:PutObjectTagging", f"{arn}/runs/*"),
        ("s3:AbortMultipartUpload", f"{arn}/runs/*"),
    ]
    assert not {kind for kind in cluster.kinds if "ttachment" in kind}, "no managed policies"
    none = made(bucket=False)
    assert not [one for one in none.every(ROLE_POLICY) if one.name != "deadline"]
    assert not any("iamInstanceProfile" in host.inputs for host in none.every(INSTANCE))


def test_a_host_has_its_rights_before_it_boots() -> None:
    """Else the first upload of a short run is refused."""
    cluster = made(data_buckets="s3://images")
    needed = {one.urn for one in cluster.every(ROLE_POLICY) if one.name != "deadline"}
    assert len(needed) == 2
    assert needed <= set(cluster.one("aws:iam/instanceProfile:InstanceProfile").depends_on)


def allowed(one: Any) -> list[tuple[Any, ...]]:
    """(action, resources, prefixes that may be listed) of a role's policy."""
    return [
        (
            statement["Action"],
            statement["Resource"],
            statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix"),
        )
        for statement in policy(one.inputs["policy"])
        if statement["Effect"] == "Allow"
    ]


@pytest.mark.parametrize("bucket", [True, False])
def test_the_hosts_read_data_below_the_named_prefixes_only(bucket: bool) -> None:
    cluster = made(bucket=bucket, data_buckets="s3://images/cassava/v1/, s3://all")
    (data,) = [one for one in cluster.every(ROLE_POLICY) if one.name == "data"]
    images, everything = "arn:aws:s3:::images", "arn:aws:s3:::all"
    assert allowed(data) == [
        (["s3:ListBucket"], [images], ["cassava/v1/*"]),
        (["s3:GetObject"], [f"{images}/cassava/v1", f"{images}/cassava/v1/*"], None),
        (["s3:ListBucket"], [everything], None),
        (["s3:GetObject"], [f"{everything}/*"], None),
    ]
    names = {one.name for one in cluster.every(ROLE_POLICY)}
    assert ("bucket" in names) == bucket
    profile = cluster.one("aws:iam/instanceProfile:InstanceProfile")
    assert data.urn in profile.depends_on, "a host that boots before its rights reads nothing"
    assert all("iamInstanceProfile" in host.inputs for host in cluster.every(INSTANCE))


def test_ten_long_prefixes_fit_into_a_role() -> None:
    given = ",".join(f"s3://a-bucket-of-data-{n}/{'folder/' * 12}{n}" for n in range(10))
    (data,) = [p for p in made(data_buckets=given).every(ROLE_POLICY) if p.name == "data"]
    assert len(data.inputs["policy"]) < 10_240, "AWS counts all policies of a role together"


@pytest.mark.parametrize(("spot", "verb"), [(False, "stop"), (True, "terminate")])
def test_the_deadline_stops_exactly_these_machines_once(spot: bool, verb: str) -> None:
    cluster = made(spot=spot, count=3, deadline_hours=5)
    schedules = {one.name: one for one in cluster.every(SCHEDULE)}
    assert sorted(schedules) == ["host-1", "host-2", "host-3"], "a fixed name for each number"
    for number, schedule in schedules.items():
        name = number.replace("host", "c")
        assert schedule.inputs["name"] == f"railhead-c-i-{name}"
        target = schedule.inputs["target"]
        assert target["arn"] == f"arn:aws:scheduler:::aws-sdk:ec2:{verb}Instances"
        assert json.loads(target["input"]) == {"InstanceIds": [f"i-{name}"]}
        at = datetime.fromisoformat(schedule.inputs["scheduleExpression"][3:-1])
        left = at.replace(tzinfo=timezone.utc) - datetime.now(timezone.utc)
        assert timedelta(hours=4.99) < left < timedelta(hours=5.01)
        assert schedule.inputs["scheduleExpressionTimezone"] == "UTC"
        assert schedule.inputs["flexibleTimeWindow"] == {"mode": "OFF"}
        assert schedule.inputs["actionAfterCompletion"] == "NONE", "a past deadline is not missing"
        assert schedule.ignore_changes == ("scheduleExpression",), "an `up` must not move it"
    (rights,) = [one for one in cluster.every(ROLE_POLICY) if one.name == "deadline"]
    (statement,) = policy(rights.inputs["policy"])
    assert statement["Action"] == [f"ec2:{verb.capitalize()}Instances"]
    assert statement["Resource"] == ["arn:aws:ec2:us-east-1:123456789012:instance/*"]
    assert statement["Condition"] == {"StringEquals": {"ec2:ResourceTag/railhead:id": CLUSTER_ID}}
    for host in cluster.every(INSTANCE):
        assert host.inputs["tags"]["railhead:id"] == CLUSTER_ID


def test_a_schedule_waits_for_its_own_instance_and_no_other() -> None:
    """And what it needs exists before the first machine: nothing of it can fail later."""
    cluster = made(count=3)
    hosts = {one.name: one for one in cluster.every(INSTANCE)}
    (rights,) = [one.urn for one in cluster.every(ROLE_POLICY) if one.name == "deadline"]
    assert all(rights in host.depends_on for host in hosts.values())
    for schedule in cluster.every(SCHEDULE):
        waits = {one.name for one in hosts.values() if one.urn in schedule.depends_on}
        assert waits == {schedule.name}
        assert rights in schedule.depends_on


def test_only_the_scheduler_of_this_account_takes_the_deadlines_role() -> None:
    roles = {one.name: one for one in made().every("aws:iam/role:Role")}
    (who,) = policy(roles["deadline-role"].inputs["assumeRolePolicy"])
    assert who["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert who["Condition"]["StringEquals"] == {
        "aws:SourceAccount": "123456789012",
        "aws:SourceArn": "arn:aws:scheduler:us-east-1:123456789012:schedule-group/default",
    }
    (host,) = policy(roles["role"].inputs["assumeRolePolicy"])
    assert host["Principal"] == {"Service": "ec2.amazonaws.com"}


def test_the_longest_name_still_fits() -> None:
    cluster = made(name="c" * 30)
    roles = cluster.every("aws:iam/role:Role")
    assert all(len(role.inputs["name"]) <= 64 for role in roles)
    # An instance's id has 19 characters.
    assert len(f"railhead-{'c' * 30}-i-0123456789abcdef0") <= 64
    for schedule in cluster.every(SCHEDULE):
        assert (
            schedule.inputs["name"]
            == f"railhead-{'c' * 30}-i-{schedule.name.replace('host', 'c' * 30)}"
        )
    assert len(cluster.one(BUCKET).inputs["bucket"]) <= 63


def test_an_image_that_aws_renews_replaces_nothing_and_a_pinned_one_is_followed() -> None:
    for host in made().every(INSTANCE):
        assert host.ignore_changes == ("ami", "userData", "placementGroup")
        assert host.delete_before_replace
    pinned = made(image="ami-0a1b2c3d")
    assert not [call for call in pinned.calls if "getParameter" in call.token]
    for host in pinned.every(INSTANCE):
        assert host.inputs["ami"] == "ami-0a1b2c3d" and "ami" not in host.ignore_changes


DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-"
CANONICAL = "/aws/service/canonical/ubuntu/server/"
# As AWS lists them: a name that does not exist would end every `up` at its first lookup.
PARAMETERS = {
    "dlami-base-ubuntu-22.04": f"{DLAMI}22.04/latest/ami-id",
    "dlami-base-ubuntu-24.04": f"{DLAMI}24.04/latest/ami-id",
    "ubuntu-22.04": f"{CANONICAL}22.04/stable/current/amd64/hvm/ebs-gp2/ami-id",
    "ubuntu-24.04": f"{CANONICAL}24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
}


def test_every_name_of_an_image_has_its_parameter() -> None:
    assert image.PARAMETERS == PARAMETERS


@pytest.mark.parametrize("name", PARAMETERS)
def test_images_are_looked_up_by_aws_parameter_names(name: str) -> None:
    (request,) = [c.args["name"] for c in made(image=name).calls if "getParameter" in c.token]
    assert request == PARAMETERS[name]


def test_all_hosts_are_in_the_first_zone_that_sells_the_type() -> None:
    cluster = made()
    assert cluster.one(SUBNET).inputs["availabilityZone"] == "us-east-1a"
    assert len({host.inputs["subnetId"] for host in cluster.every(INSTANCE)}) == 1
    fixed = cluster.one(SUBNET).ignore_changes
    assert "availabilityZone" in fixed, "a zone that AWS adds must not move machines"
    chosen = made(world(sold_in=["us-east-1b", "us-east-1d"]), zones="us-east-1c,us-east-1d")
    subnet = chosen.one(SUBNET)
    assert subnet.inputs["availabilityZone"] == "us-east-1d" and not subnet.ignore_changes


LOCAL, WAVELENGTH = "us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1"


def zones_in_turn(cluster: Made) -> Any:
    """The zone of the hosts, and the zones in which `fab up` looks for capacity in turn."""
    (zone,) = {one.inputs["availabilityZone"] for one in cluster.every(SUBNET)}
    (turn,) = [one.inputs["input"] for one in cluster.every(STASH) if one.name == "zones"]
    return zone, turn


def test_local_and_wavelength_zones_are_used_only_where_they_are_named() -> None:
    """They sort before the others: us-east-1-bos-1a."""
    there = world(sold_in=[LOCAL, "us-east-1b", WAVELENGTH, "us-east-1d"])
    assert zones_in_turn(made(there)) == ("us-east-1b", ["us-east-1b", "us-east-1d"])
    assert zones_in_turn(made(there, zones=LOCAL)) == (LOCAL, [LOCAL])
    wanted = f"us-east-1d,{WAVELENGTH},us-east-1b"
    assert zones_in_turn(made(there, zones=wanted)) == ("us-east-1d", wanted.split(","))
    message = denied(world(sold_in=[LOCAL, WAVELENGTH]))
    assert "no ordinary zone has g4dn.xlarge" in message
    assert f"next: pulumi config set zones {LOCAL}" in message


def test_zones_of_an_existing_network_are_those_with_a_public_subnet() -> None:
    there = world(subnets={"us-east-1b": ["subnet-2"], "us-east-1d": ["subnet-4"]})
    cluster = made(there, network="vpc-0a1b2c3d")
    assert {host.inputs["subnetId"] for host in cluster.every(INSTANCE)} == {"subnet-2"}
    (turn,) = [one.inputs["input"] for one in cluster.every(STASH) if one.name == "zones"]
    assert turn == ["us-east-1b", "us-east-1d"]


def test_zones_have_blocks_of_their_own_inside_the_network() -> None:
    network = ipaddress.ip_network(made().one("aws:ec2/vpc:Vpc").inputs["cidrBlock"])
    blocks = {
        made(zones=f"us-east-1{letter}", where=world(sold_in=[f"us-east-1{letter}"]))
        .one(SUBNET)
        .inputs["cidrBlock"]
        for letter in "abcdef"
    }
    assert len(blocks) == 6
    assert all(ipaddress.ip_network(block).subnet_of(network) for block in blocks)  # type: ignore[arg-type]


def test_an_existing_network_is_used_and_left_as_it_is() -> None:
    there = world(subnets={"us-east-1c": ["subnet-2", "subnet-1"]})
    cluster = made(there, network="vpc-0a1b2c3d")
    for host in cluster.every(INSTANCE):
        assert host.inputs["subnetId"] == "subnet-1" and "subnetId" in host.ignore_changes
    group = cluster.one("aws:ec2/securityGroup:SecurityGroup")
    assert group.inputs["vpcId"] == "vpc-0a1b2c3d"
    ours = {"Vpc", "Subnet", "RouteTable", "Route", "InternetGateway", "VpcEndpoint"}
    assert not {kind.rsplit(":")[-1] for kind in cluster.kinds} & (ours | {"DefaultSecurityGroup"})
    assert "no subnet that gives public addresses" in denied(network="vpc-0a1b2c3d")


def test_a_network_of_its_own_leads_out_and_has_an_empty_default_group() -> None:
    """Its machines have addresses, and AWS's own group, whose members reach each other, no rule."""
    cluster = made()
    (vpc,) = {one.name for one in cluster.every("aws:ec2/vpc:Vpc")}
    assert cluster.one(SUBNET).inputs["mapPublicIpOnLaunch"] is True
    route = cluster.one("aws:ec2/route:Route").inputs
    assert route["destinationCidrBlock"] == "0.0.0.0/0"
    gateway = cluster.one("aws:ec2/internetGateway:InternetGateway")
    assert (route["gatewayId"], gateway.inputs["vpcId"]) == (f"{gateway.name}-id", f"{vpc}-id")
    default = cluster.one("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")
    assert default.inputs["vpcId"] == f"{vpc}-id"


def test_everything_may_leave_and_hosts_reach_each_other_by_every_protocol() -> None:
    """Not UDP alone, nor a range of ports: packages come over TCP, MPI takes any port."""
    cluster = made()
    (out,) = [one.inputs for one in cluster.every(EGRESS)]
    assert (out["ipProtocol"], out["cidrIpv4"]) == ("-1", "0.0.0.0/0")
    among = [o.inputs for o in cluster.every(INGRESS) if o.inputs.get("referencedSecurityGroupId")]
    assert [rule["ipProtocol"] for rule in among] == ["-1"]
    for rule in (out, *among):
        assert rule.get("fromPort") is None and rule.get("toPort") is None


def test_the_policy_of_the_bucket_waits_for_its_public_access_block() -> None:
    """AWS takes only one of them at a time, and refuses the other."""
    cluster = made()
    block = cluster.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
    assert block.urn in cluster.one("aws:s3/bucketPolicy:BucketPolicy").depends_on


def test_the_rule_for_old_versions_waits_for_versioning() -> None:
    """AWS asks for that order: on a bucket without versions the rule has nothing to remove."""
    cluster = made()
    versions = cluster.one("aws:s3/bucketVersioning:BucketVersioning")
    lifecycle = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    assert versions.urn in cluster.one(lifecycle).depends_on


def test_s3_is_reached_inside_of_aws() -> None:
    cluster = made()
    way = cluster.one("aws:ec2/vpcEndpoint:VpcEndpoint").inputs
    assert way["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert way["vpcEndpointType"] == "Gateway"
    table = cluster.one("aws:ec2/routeTable:RouteTable")
    assert way["routeTableIds"] == [f"{table.name}-id"]


def test_hosts_wait_for_their_ways_out() -> None:
    """A machine that boots without a route installs nothing."""
    cluster = made()
    joined = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    kinds = ("aws:ec2/route:Route", joined, INGRESS, EGRESS)
    needed = {one.urn for kind in kinds for one in cluster.every(kind)}
    for host in cluster.every(INSTANCE):
        assert needed <= set(host.depends_on)


def test_the_bucket_is_private_and_outlives_a_destroy_with_its_settings() -> None:
    cluster = made()
    bucket = cluster.one(BUCKET)
    assert not bucket.inputs.get("forceDestroy")
    block = cluster.one("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock").inputs
    assert [block[key] for key in sorted(block) if key != "bucket"] == [True] * 4
    encryption = "aws:s3/bucketServerSideEncryptionConfiguration:"
    (rule,) = cluster.one(f"{encryption}BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "AES256"
    versions = cluster.one("aws:s3/bucketVersioning:BucketVersioning").inputs
    assert versions["versioningConfiguration"] == {"status": "Enabled"}
    lifecycle = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    life, checkpoints = cluster.one(lifecycle).inputs["rules"]
    assert (life["status"], life["filter"]) == ("Enabled", {"prefix": ""})
    assert life["noncurrentVersionExpiration"] == {"noncurrentDays": 7}
    assert life["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 2}
    assert checkpoints["noncurrentVersionExpiration"] == {"noncurrentDays": 1}
    assert checkpoints["filter"] == {"tag": {"key": "railhead", "value": "checkpoint"}}
    assert not {"expiration"} & (life.keys() | checkpoints.keys()), "what is current stays"
    (refusal,) = policy(cluster.one("aws:s3/bucketPolicy:BucketPolicy").inputs["policy"])
    assert (refusal["Effect"], refusal["Principal"]) == ("Deny", "*")
    assert refusal["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert set(refusal["Resource"]) == {"arn:mock:results", "arn:mock:results/*"}
    settings = [one for one in cluster.resources if one.type.startswith("aws:s3/bucket")]
    assert all(one.deleted_with == bucket.urn for one in settings if one != bucket)
    assert "aws:s3/bucket:Bucket" not in made(bucket=False).kinds
    assert made(bucket_name="my-results").one(BUCKET).inputs["bucket"] == "my-results"


def test_a_destroy_comes_to_the_bucket_last() -> None:
    """So that one with objects, which AWS refuses to remove, leaves nothing else behind."""
    cluster = made()
    bucket = cluster.one(BUCKET).urn
    after = {bucket}
    for _ in cluster.resources:  # as often as the longest chain could be long
        after |= {it.urn for it in cluster.resources if after & set(it.depends_on)}
    left = [one for one in cluster.resources if one.type in cluster.kinds and one.urn not in after]
    assert not left, [one.name for one in left]


def test_the_key_is_the_operators_without_its_comment() -> None:
    assert made().one("aws:ec2/keyPair:KeyPair").inputs["publicKey"] == KEY


@pytest.mark.parametrize("machine_type", TYPES)
def test_every_type_makes_a_cluster(machine_type: str) -> None:
    cluster = made(machine_type=machine_type)
    hosts = cluster.every(INSTANCE)
    assert [host.inputs["instanceType"] for host in hosts] == [machine_type] * 2
    (host, _) = cluster.outputs["cluster"]["hosts"]
    machine = machine_types.TYPES[machine_type]
    cards = {"type": machine.gpu, "count": machine.gpus} if machine.gpu else None
    assert (host["slots"], host.get("gpu")) == (machine.gpus or 1, cards)
    assert ("retired" in cluster.text) == bool(machine_types.TYPES[machine_type].retired)


def test_a_preview_shows_whose_account_it_is() -> None:
    for seen in (made(), previewed(), made(world(quota=0), quotas="request")):
        who = "account 123456789012, region us-east-1, as arn:aws:iam::123456789012:user/ann"
        assert who in seen.text


def test_a_region_that_does_not_answer_is_named() -> None:
    where = world()
    where.answers = {**where.answers, "aws:index/getCallerIdentity:getCallerIdentity": refuse}
    message = denied(where, region="xx-new-1")
    assert "region: AWS does not answer in xx-new-1: " in message
    assert "aws ec2 describe-regions" in message


def test_an_image_that_cannot_be_used_is_refused_before_anything_is_made() -> None:
    message = denied(world(image_gb=0), image="ami-0a1b2c3d")
    assert "image: ami-0a1b2c3d is not in us-east-1, or not for this account" in message
    message = denied(world(image_gb=75), disk_gb=60)
    assert "disk_gb: 60 is less than the 75 GB of an image" in message
    assert "pulumi config set disk_gb 75" in message
    assert "is for arm64" in denied(world(architecture="arm64"), image="ami-0a1b2c3d")
    assert len(made(world(image_gb=75), disk_gb=75).every(INSTANCE)) == 2


def test_an_image_that_is_gone_stops_no_up_of_machines_that_exist() -> None:
    cluster = made(world(image_gb=0, machines=["i-1", "i-2"]), image="ami-0a1b2c3d")
    assert "WARNING: for new machines: image: ami-0a1b2c3d is not in us-east-1" in cluster.text


@pytest.mark.parametrize("machine_type", TYPES)
def test_a_type_that_is_sold_nowhere_names_another(machine_type: str) -> None:
    message = denied(world(sold_in=[]), machine_type=machine_type)
    assert f"no zone of us-east-1 has {machine_type}" in message
    other = machine_types.TYPES[machine_type].substitute or "g4dn.xlarge"
    assert f"pulumi config set machine_type {other}" in message


def test_zones_without_the_type_name_those_with_it() -> None:
    message = denied(world(sold_in=["us-east-1a", "us-east-1b"]), zones="us-east-1c")
    assert "none of us-east-1c has g4dn.xlarge" in message and "us-east-1a, us-east-1b" in message


def test_the_document_is_the_golden_one() -> None:
    document = made(name="aws-g4dn", machine_type="g4dn.12xlarge").outputs["cluster"]
    golden = json.loads(GOLDEN.read_text())
    assert document.keys() == golden.keys()
    assert document["hosts"] == [
        {**one, "id": f"i-{one['name']}", "address": one["address"]} for one in golden["hosts"]
    ]
    assert document["bucket"] == "s3://results-id"
    for deadline, wanted in zip(document["deadlines"], golden["deadlines"], strict=True):
        assert deadline.keys() == wanted.keys()
        assert (deadline["kind"], deadline["host"]) == (wanted["kind"], wanted["host"])
        assert datetime.fromisoformat(deadline["at"].replace("Z", "+00:00")).tzinfo
    assert document["price"]["per_hour"] == golden["price"]["per_hour"]


def test_a_first_preview_reports_have_and_need_with_nothing_known() -> None:
    seen = previewed(count=3)
    assert "have 9999, used by others 0, need 12 vCPU" in seen.text
    assert len(seen.every(INSTANCE)) == 3


def test_config_is_what_a_user_wrote() -> None:
    assert config().public_key.startswith(KEY)


def test_an_up_names_machines_with_its_id_that_it_did_not_make() -> None:
    """As a killed `up` leaves them; its own machines are not named."""
    there = world(machines=["i-c-1", "i-c-2", "i-stray"])
    assert "WARNING: i-stray: machines with this stack's id" in made(there).text
    assert "WARNING: i-" not in made(world(machines=["i-c-1", "i-c-2"])).text


def test_a_new_stack_does_not_take_the_names_of_anothers_machines() -> None:
    """Its owner is named, and a name that is free; the first candidate is taken here too."""
    theirs = {"railhead:cluster": "c", "railhead:owner": "ben", "railhead:id": "ffffffffffff"}
    others = {"i-7": {**theirs, "Name": "c-1"}, "i-8": {**theirs, "railhead:cluster": "c-ann"}}
    message = denied(world(others=others))
    assert "c-1 (i-7, owner ben, id ffffffffffff)" in message
    assert message.endswith("next: pulumi config set name c-2")
    assert len(made(world(others=others), name="c-2").every(INSTANCE)) == 2
    assert len(made(world(others=others, machines=["i-1"])).every(INSTANCE)) == 2, "not a new one"
    assert "fab adopt ffffffffffff" in denied(world(others=others), owner="ben")


def test_machines_of_anothers_stack_with_the_same_name_count_as_anothers() -> None:
    theirs = {"railhead:cluster": "c", "railhead:stack": "test", "railhead:id": "ffffffffffff"}
    others = {"i-7": {**theirs, "Name": "c-7"}, "i-8": {**theirs, "Name": "c-8"}}
    running = dict.fromkeys(others, "g4dn.xlarge")
    there = world(quota=12, others=others, running=running)
    assert "have 12, used by others 8, need 8 vCPU" in denied(there)
