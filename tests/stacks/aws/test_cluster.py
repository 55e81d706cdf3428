"""The AWS component: what it makes of a config, held against rules and not against its own code."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from places import CASES

from stacks.aws import image
from stacks.machine_types import aws as machine_types
from tests.stacks.aws.world import INSTANCE, KEY, config, denied, made, previewed, refuse, world
from tests.stacks.mocks import CLUSTER_ID, STASH

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
SCHEDULE = "aws:scheduler/schedule:Schedule"
BUCKET = "aws:s3/bucket:Bucket"
# One of every family, and all that AWS has retired.
FAMILIES = {name.partition(".")[0]: name for name in machine_types.TYPES}
TYPES = sorted(
    {*FAMILIES.values(), *(n for n, kind in machine_types.TYPES.items() if kind.retired)}
)


def test_everything_has_our_tags_through_the_one_provider() -> None:
    cluster = made()
    provider = cluster.one("pulumi:providers:aws")
    # An account may demand tags in the launch itself: of its disk there are only these.
    assert json.loads(provider.inputs["defaultTags"])["tags"] == {
        "railhead:cluster": "c",
        "railhead:owner": "ann",
        "railhead:stack": "test",
        "railhead:id": CLUSTER_ID,
    }
    assert provider.inputs["region"] == "us-east-1"
    for resource in cluster.resources:
        if resource.type in cluster.kinds:
            assert resource.provider.startswith(provider.urn), resource
    # Default tags reach disks in the launch alone: an `up` changes these.
    for host in cluster.every(INSTANCE):
        disk = host.inputs["rootBlockDevice"]["tags"]
        assert disk["railhead:cluster"] == "c" and disk["railhead:owner"] == "ann"
        assert disk["railhead:id"] == CLUSTER_ID


def test_everything_with_tags_has_the_clusters_id() -> None:
    """Also what keeps its own tags; a first preview, where nothing is known, shows the same."""
    cluster = made()
    tagged = [resource for resource in cluster.resources if resource.inputs.get("tags")]
    assert {resource.inputs["tags"]["railhead:id"] for resource in tagged} == {CLUSTER_ID}
    untagged = {r.type for r in cluster.resources if r.type in cluster.kinds} - {
        resource.type for resource in tagged
    }
    assert untagged == UNTAGGED
    kept = {resource.name: resource for resource in cluster.every(STASH)}
    assert kept["cluster-id"].ignore_changes == ("input",)
    assert (
        kept["cluster-price-per-machine"].inputs["input"]["per_hour"] == 0.54881
    )  # and disk, its throughput beyond 125 MiB/s, address


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


def test_the_longest_name_still_fits() -> None:
    cluster = made(name="c" * 30)
    roles = cluster.every("aws:iam/role:Role")
    assert all(len(role.inputs["name"]) <= 64 for role in roles)
    # An instance's id has 19 characters.
    assert len(f"railhead-{'c' * 30}-i-0123456789abcdef0") <= 64
    for schedule in cluster.every(SCHEDULE):
        assert (
            schedule.inputs["name"]
            == f"railhead-{'c' * 30}-i-{schedule.name.replace('cluster-host', 'c' * 30)}"
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
    oss = world(image="Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261009")
    message = denied(oss, image="ami-0a1b2c3d", machine_type="p3.2xlarge")
    assert "does not support V100" in message and "next: pulumi config rm image" in message
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


def test_the_document_is_the_golden_one() -> None:
    document = made(name="aws-g4dn", machine_type="g4dn.12xlarge").outputs["cluster"]
    golden = json.loads(GOLDEN.read_text())
    assert document.keys() == golden.keys()
    assert document["hosts"] == [
        {**r, "id": f"i-{r['name']}", "address": r["address"]} for r in golden["hosts"]
    ]
    assert document["bucket"] == "s3://cluster-results-id"
    for deadline, fixed in zip(document["deadlines"], golden["deadlines"], strict=True):
        assert deadline.keys() == fixed.keys()
        assert (deadline["kind"], deadline["host"]) == (fixed["kind"], fixed["host"])
        assert datetime.fromisoformat(deadline["at"].replace("Z", "+00:00")).tzinfo
    disks_and_addresses = 2 * (0.01096 + 125 * 0.04 / 730 + 0.005)
    expected = golden["price"]["per_hour"] + disks_and_addresses
    assert document["price"]["per_hour"] == pytest.approx(expected)


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


@pytest.mark.parametrize(
    ("machine_type", "others"),
    [
        ("g5.12xlarge", ["g5.24xlarge"]),
        ("p3.16xlarge", ["p3dn.24xlarge"]),
        ("p3dn.24xlarge", []),
        ("c7i.xlarge", ["m7i.xlarge"]),
    ],
)
def test_types_that_may_have_room_are_those_that_every_account_can_use(
    machine_type: str, others: list[str]
) -> None:
    """AWS has retired p3.16xlarge, which has the GPUs of p3dn.24xlarge."""
    assert machine_types.same_gpus(machine_type) == others
