"""The labels by which everything of a cluster is found, and whoever pays for it. Pure."""

from __future__ import annotations

from stacks.settings import ClusterConfig


def labels(config: ClusterConfig) -> dict[str, str]:
    """For all that Google Cloud can label; networks, rules and accounts it cannot."""
    return {"railhead-cluster": config.name, "railhead-owner": config.owner}


def description(config: ClusterConfig) -> str:
    """For what cannot be labelled. Without the owner: networks are replaced to change theirs."""
    return f"Railhead cluster {config.name}"


def tag(config: ClusterConfig) -> str:
    """The network tag of the cluster's machines, by which its firewall rules name them."""
    return f"railhead-{config.name}"
