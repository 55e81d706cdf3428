"""A cluster in a program of one's own takes the options of a Pulumi component."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from railhead.documents.codec import encode
from stacks.aws.cluster import Cluster as AwsCluster
from stacks.gcp.cluster import Cluster as GcpCluster
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp
from tests.stacks.mocks import make, refused

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
    (cluster,) = (one for one in made.resources if one.type.endswith(":Cluster"))
    assert cluster.parent.endswith("acme:index:Team::team")
    kinds = {aws.INSTANCE, gcp.INSTANCE}
    machines = [one for one in made.resources if one.type in kinds]
    assert len(machines) == 2 and all(one.protect for one in (cluster, *machines))
    for one in (cluster, *machines):
        assert any(urn.endswith("::first") for urn in one.depends_on), one.name


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_provider_is_refused_before_anything_is_registered(cloud: str) -> None:
    world, component = CLOUDS[cloud]

    def program() -> Any:
        other = pulumi.ProviderResource(cloud, "other", {})
        component("mine", world.config(), pulumi.ResourceOptions(provider=other))

    message, left = refused(program, world.world())
    assert "Cluster makes its own provider" in message and not left.kinds
