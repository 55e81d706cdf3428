"""The tags on every resource that can have tags: cluster, owner, stack and id. Pure."""

from __future__ import annotations

from ..config.settings import ClusterConfig

CLUSTER, OWNER, STACK = "railhead:cluster", "railhead:owner", "railhead:stack"
ID = "railhead:id"  # its value is in stacks/cluster_id.py


def tags(config: ClusterConfig, stack: str) -> dict[str, str]:
    """The tags of a resource, for cost reports and for finding leftovers."""
    return {
        CLUSTER: config.name,
        OWNER: config.owner,
        STACK: stack,
    }
