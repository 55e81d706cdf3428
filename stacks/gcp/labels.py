"""The labels of a cluster's resources: cluster, owner and id; and the descriptions of those that
cannot have labels, with the same. bootstrap/clouds/gcp/labels.py reads both."""

from __future__ import annotations

import pulumi

from ..config.settings import ClusterConfig

CLUSTER, OWNER = "railhead-cluster", "railhead-owner"
ID = "railhead-id"  # its value is in stacks/cluster_id.py
# The types of resources that a cluster has: those that can have labels, and those that cannot.
TYPES = frozenset({"gcp:compute/instance:Instance", "gcp:storage/bucket:Bucket"})
DESCRIBED = frozenset(
    {
        "gcp:compute/network:Network",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:compute/firewall:Firewall",
        "gcp:serviceaccount/account:Account",
    }
)


def labels(config: ClusterConfig) -> dict[str, str]:
    """For every resource that can have labels."""
    return {CLUSTER: config.name, OWNER: config.owner}


def description(config: ClusterConfig, own_id: str) -> str:
    """For resources without labels."""
    return f"Railhead cluster {config.name}, id {own_id}, owner {config.owner}"


def on_every_resource_without_labels(
    config: ClusterConfig, own_id: pulumi.Output[str]
) -> pulumi.ResourceTransform:
    """A transform for a component: adds the description. Another description would replace a
    network, so each resource that cannot change it in place ignores the change."""
    text = own_id.apply(lambda cluster: description(config, cluster))

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ not in DESCRIBED:
            return None
        return pulumi.ResourceTransformResult({**args.props, "description": text}, args.opts)

    return add


def tag(config: ClusterConfig) -> str:
    """The network tag of the cluster's machines, which its firewall rules use."""
    return f"railhead-{config.name}"
