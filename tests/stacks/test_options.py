"""A cluster in a program of one's own takes the options of a Pulumi component."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from railhead.documents.codec import encode
from stacks.aws.cluster import Cluster as AwsCluster
from stacks.gcp.cluster import Cluster as GcpCluster
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp
from tests.stacks.mocks import make, refused

REGION = "aws:index/getRegion:getRegion"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
# The types of a machine and a bucket, the key of tags, and the type of the rules for SSH.
CHECKED = {
    "aws": (aws.INSTANCE, "aws:s3/bucket:Bucket", "tags", INGRESS),
    "gcp": (gcp.INSTANCE, gcp.BUCKET, "labels", gcp.FIREWALL),
}
CLOUDS: dict[str, tuple[Any, Any]] = {"aws": (aws, AwsCluster), "gcp": (gcp, GcpCluster)}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_parent_depends_on_and_protect_reach_the_cluster_and_its_machines(cloud: str) -> None:
    world, component = CLOUDS[cloud]

    def program() -> None:
        team = pulumi.ComponentResource("acme:index:Team", "team")
        first = pulumi.Stash("first", input="1")
        opts = pulumi.ResourceOptions(parent=team, depends_on=[first], protect=True)
        cluster = component("mine", world.config(name="mine"), opts)
        pulumi.export("cluster", cluster.document.apply(encode))

    made = make(program, world.world())
    (cluster,) = (resource for resource in made.resources if resource.type.endswith(":Cluster"))
    assert cluster.parent.endswith("acme:index:Team::team")
    kinds = {aws.INSTANCE, gcp.INSTANCE}
    machines = [resource for resource in made.resources if resource.type in kinds]
    assert len(machines) == 2 and all(resource.protect for resource in (cluster, *machines))
    for each in (cluster, *machines):
        assert any(urn.endswith("::first") for urn in each.depends_on), each.name


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_provider_of_the_program_makes_and_looks_up_everything(cloud: str) -> None:
    world, component = CLOUDS[cloud]
    there = world.world()
    there.answers = {**there.answers, REGION: lambda _: {"region": "us-east-1"}}

    def program() -> None:
        other = pulumi.ProviderResource("other", "other", {})
        provider = pulumi.ProviderResource(cloud, "own", {})
        opts = pulumi.ResourceOptions(providers=[other, provider])
        component("mine", world.config(name="c"), opts)

    made = make(program, there)
    providers = {r.name for r in made.resources if r.type.startswith("pulumi:providers:")}
    assert providers == {"other", "own"}
    ours = [resource for resource in made.resources if resource.type in made.kinds]
    assert ours and {resource.provider.split("::")[-2] for resource in ours} == {"own"}
    assert made.calls and {call.provider.split("::")[-2] for call in made.calls} == {"own"}
    (place,) = (resource.urn for resource in made.resources if resource.name == "mine-place")
    assert all(place in resource.depends_on for resource in ours if ":Host$" in resource.urn)
    for machine in made.every({"aws": aws.INSTANCE, "gcp": gcp.INSTANCE}[cloud]):
        tags = machine.inputs["tags" if cloud == "aws" else "labels"]
        assert {"owner", "cluster", "id"} <= {
            key.split("railhead")[1][1:] for key in tags if "rail" in key
        }


def test_a_provider_in_another_region_is_refused() -> None:
    there = aws.world()
    there.answers = {**there.answers, REGION: lambda _: {"region": "eu-west-1"}}

    def program() -> Any:
        provider = pulumi.ProviderResource("aws", "own", {})
        AwsCluster("mine", aws.config(), pulumi.ResourceOptions(provider=provider))

    message, created = refused(program, there)
    assert "the config has us-east-1, and the provider in opts has eu-west-1" in message
    assert not created.kinds


@pytest.mark.parametrize("cloud", CLOUDS)
def test_two_clusters_of_one_program_have_nothing_in_common(cloud: str) -> None:
    world, component = CLOUDS[cloud]

    def program() -> None:
        for name in ("one", "two"):
            cluster = component(name, world.config(name=f"gpu-{name}"))
            pulumi.export(name, cluster.document.apply(encode))

    made = make(program, world.world())
    urns = [resource.urn for resource in made.resources]
    assert len(urns) == len(set(urns)) and len(urns) > 40
    for resource in made.resources:
        assert resource.name.startswith(("one", "two")), resource.name
        strange = [urn for urn in (resource.parent, resource.provider, *resource.depends_on) if urn]
        names = {urn.split("::")[3][:3] for urn in strange if "pulumi:pulumi:Stack" not in urn}
        assert names <= {resource.name[:3]}, resource.name
    assert [made.outputs[name]["name"] for name in ("one", "two")] == ["gpu-one", "gpu-two"]
    aliased = {resource.name[:3] for resource in made.resources if resource.former}
    assert aliased == {"one"}, "one cluster alone takes over what an earlier version made"


@pytest.mark.parametrize(("names", "says"), [
    (("a", "a", "x", "y"), "'a' is the logical name of two clusters"),
    (("a", "b", "x", "x"), "two clusters of this program are called 'x'"),
])  # fmt: skip
def test_two_clusters_of_one_name_are_refused(names: tuple[str, ...], says: str) -> None:
    first, second, first_name, second_name = names

    def program() -> Any:
        GcpCluster(first, gcp.config(name=first_name))
        GcpCluster(second, gcp.config(name=second_name))

    message, _ = refused(program, gcp.world())
    assert says in message


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_a_program_computes_reaches_the_cloud(cloud: str) -> None:
    """Networks, labels, the bucket's name and data may be Outputs; those of the plan may not."""
    world, component = CLOUDS[cloud]
    scheme = {"aws": "s3", "gcp": "gs"}[cloud]

    def program() -> None:
        made = pulumi.Stash("made", input="v")
        text = made.output
        config = replace(
            world.config(name="c"),
            ssh_cidrs=("198.51.100.7/32", text.apply(lambda _: "203.0.113.0/24")),
            bucket_name=text.apply(lambda v: f"results-{v}"),
            data_buckets=(text.apply(lambda v: f"{scheme}://images-{v}/a"),),
            labels={"team": "blue", "cost": text.apply(lambda v: f"centre-{v}")},
        )
        component("mine", config)

    made = make(program, world.world())
    machine, bucket, tags, networks = CHECKED[cloud]
    assert made.one(bucket).inputs[{"aws": "bucket", "gcp": "name"}[cloud]] == "results-v"
    for host in made.every(machine):
        assert host.inputs[tags]["team"] == "blue" and host.inputs[tags]["cost"] == "centre-v"
    every = str([resource.inputs for resource in made.every(networks)])
    assert "198.51.100.7/32" in every and "203.0.113.0/24" in every
    assert "images-v" in str([resource.inputs for resource in made.resources if resource.custom])


@pytest.mark.parametrize(("key", "value"), [("region", "us-east-1"), ("count", 2)])
def test_what_the_plan_needs_early_is_refused_as_an_output(key: str, value: Any) -> None:
    def program() -> Any:
        late: dict[str, Any] = {key: pulumi.Output.from_input(value)}
        AwsCluster("mine", replace(aws.config(), **late))

    message, created = refused(program, aws.world())
    assert message.startswith(f"{key}: an Output; ") and "ssh_cidrs" in message
    assert not created.resources


@pytest.mark.parametrize(("changes", "says"), [
    ({"ssh_cidrs": ("0.0.0.0/0",)}, "ssh_cidrs: 0.0.0.0/0 is wider than /16"),
    ({"ssh_cidrs": ("here",)}, "ssh_cidrs: 'here' is not a network"),
    ({"bucket_name": "No"}, "bucket_name: 'No' is not a bucket's name"),
    ({"data_buckets": ("ftp://x",)}, "data_buckets: "),
])  # fmt: skip
def test_a_computed_value_is_checked_when_it_is_known(changes: dict[str, Any], says: str) -> None:
    def program() -> Any:
        late = pulumi.Stash("late", input=changes).output
        ((key, value),) = changes.items()
        output = late.apply(lambda _: value if isinstance(value, str) else value[0])
        computed: dict[str, Any] = {key: output if key == "bucket_name" else (output,)}
        AwsCluster("mine", replace(aws.config(), **computed))

    message, _ = refused(program, aws.world())
    assert says in message
