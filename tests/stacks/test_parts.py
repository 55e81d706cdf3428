"""The parts of a cluster on each cloud: components, their constant names, what each has."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from stacks.aws import bucket as aws_bucket
from stacks.aws.tags import TYPES as TAGGED
from stacks.component.parts import unique
from stacks.gcp import bucket as gcp_bucket
from stacks.gcp import zone
from stacks.gcp.labels import TYPES as LABELLED
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp
from tests.stacks.mocks import Made, make

CLOUDS = {"aws": aws.made, "gcp": gcp.made}
# The types of the resources in each part, without their cloud and module.
PARTS = {
    "aws": {
        "access": {"InstanceProfile", "KeyPair", "Role", "RolePolicy"},
        "bucket": {
            "Bucket",
            "BucketLifecycleConfiguration",
            "BucketPolicy",
            "BucketPublicAccessBlock",
            "BucketServerSideEncryptionConfiguration",
            "BucketVersioning",
        },
        "host-1": {"Instance", "Schedule"},
        "host-2": {"Instance", "Schedule"},
        "network": {
            "DefaultSecurityGroup",
            "InternetGateway",
            "PlacementGroup",
            "Route",
            "RouteTable",
            "RouteTableAssociation",
            "SecurityGroup",
            "SecurityGroupEgressRule",
            "SecurityGroupIngressRule",
            "Subnet",
            "Vpc",
            "VpcEndpoint",
        },
    },
    "gcp": {
        "access": {"Account", "BucketIAMMember"},
        "bucket": {"Bucket"},
        "host-1": {"Instance"},
        "host-2": {"Instance"},
        "network": {"Firewall", "Network", "Subnetwork"},
    },
}


def of_cloud(made: Made) -> list[Any]:
    return [resource for resource in made.resources if resource.type in made.kinds]


def kind(resource: Any) -> str:
    return str(resource.type.rpartition(":")[2])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_cluster_has_these_parts_and_nothing_beside_them(cloud: str) -> None:
    made = CLOUDS[cloud]()
    by_urn = {resource.urn: resource for resource in made.resources}
    names: dict[str, set[str]] = {}
    for owned in of_cloud(made):
        parent = by_urn[owned.parent]
        while parent.custom:  # the settings of a bucket have the bucket as their parent
            parent = by_urn[parent.parent]
        assert by_urn[parent.parent].type == f"railhead:{cloud}:Cluster"
        names.setdefault(parent.name.removeprefix("cluster-"), set()).add(kind(owned))
    assert names == PARTS[cloud]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_logical_names_do_not_depend_on_the_clusters_name(cloud: str) -> None:
    """Only on the first argument of Cluster. Each is there once per type; those of a host are the
    host's, so that one can be a target."""
    first, second = (of_cloud(CLOUDS[cloud](name=name)) for name in ("abc", "xyz"))
    urns = {each.urn for each in first}
    assert urns == {each.urn for each in second} and len(urns) == len(first)
    assert not [urn for urn in urns if "abc" in urn]
    hosts = [each for each in first if ":Host$" in each.urn]
    assert {each.name for each in hosts} == {"cluster-host-1", "cluster-host-2"}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_names_in_the_cloud_begin_with_the_clusters_name_and_are_kept(cloud: str) -> None:
    properties = ("name", "keyName", "bucket", "accountId")
    for resource in of_cloud(CLOUDS[cloud](name="abc")):
        for key in set(properties) & resource.inputs.keys():
            if "abc" in str(resource.inputs[key]):
                # `refers`: to a name that is kept
                assert key in resource.ignore_changes or key in resource.refers, (
                    f"{resource.name}: another name would replace it"
                )


@pytest.mark.parametrize("cloud", CLOUDS)
def test_each_resource_is_known_by_the_name_that_it_had_before(cloud: str) -> None:
    prefix = f"urn:pulumi:test::railhead::railhead:{cloud}:Cluster$"
    made = CLOUDS[cloud](name="abc")
    machines = {"aws": "aws:ec2/instance:Instance", "gcp": "gcp:compute/instance:Instance"}
    first, _ = made.every(machines[cloud])
    assert f"{prefix}{first.type}::abc-1" in first.aliases
    for resource in of_cloud(made):
        assert len(resource.aliases) == 2
        for alias in resource.aliases:
            assert alias.startswith(prefix) and resource.type in alias and "abc" in alias


def test_every_type_that_can_have_the_id_is_listed() -> None:
    """Of the types that a cluster has, those whose class has `tags` or `labels`."""
    for made, types, key in ((aws.made(), TAGGED, "tags"), (gcp.made(), LABELLED, "labels")):
        assert {r.type for r in of_cloud(made) if accepts(r.type, key)} == types


def accepts(token: str, key: str) -> bool:
    """Whether the class of a resource has this property; module and name are in its token."""
    package, module, name = token.split(":")
    library = __import__(f"pulumi_{package}")
    return hasattr(getattr(getattr(library, module.split("/")[0]), name), key)


def test_a_bucket_alone_is_whole() -> None:
    """A part needs nothing but config and options."""
    options = pulumi.ResourceOptions()
    alone = make(lambda: aws_bucket.Bucket(aws.config(), options), aws.world())
    assert {kind(resource) for resource in of_cloud(alone)} == PARTS["aws"]["bucket"]
    location = zone.Location("p-12345", "us-central1", "us-central1-a")
    alone = make(lambda: gcp_bucket.Bucket(gcp.config(), location, options), gcp.world())
    assert {kind(resource) for resource in of_cloud(alone)} == PARTS["gcp"]["bucket"]


def test_a_name_is_never_given_twice() -> None:
    """What a killed `up` left in no state is not in the way."""
    names = {unique("railhead", "c") for _ in range(100)}
    assert len(names) == 100 and all(name.startswith("railhead-c-") for name in names)
