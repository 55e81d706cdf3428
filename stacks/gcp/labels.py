"""The labels of a cluster's resources: cluster, owner and id. Pure."""

from __future__ import annotations

from ..config.settings import ClusterConfig

CLUSTER, OWNER = "railhead-cluster", "railhead-owner"
ID = "railhead-id"  # its value is in stacks/cluster_id.py
# The types of resources that a cluster has and that can have labels.
TYPES = frozenset({"gcp:compute/instance:Instance", "gcp:storage/bucket:Bucket"})


def labels(config: ClusterConfig) -> dict[str, str]:
    """For every resource that can have labels; networks, firewall rules and accounts cannot."""
    return {CLUSTER: config.name, OWNER: config.owner}


def description(config: ClusterConfig) -> str:
    """For resources without labels. Without the owner: another description replaces a network."""
    return f"Railhead cluster {config.name}"


def tag(config: ClusterConfig) -> str:
    """The network tag of the cluster's machines, which its firewall rules use."""
    return f"railhead-{config.name}"
