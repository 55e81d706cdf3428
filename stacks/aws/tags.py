"""The tags on every resource that can have tags: cluster, owner, stack and id. Pure."""

from __future__ import annotations

from ..config.settings import ClusterConfig

ID = "railhead:id"  # its value is in stacks/cluster_id.py


def tags(config: ClusterConfig, stack: str) -> dict[str, str]:
    """The tags of a resource, for cost reports and for finding leftovers."""
    return {
        "railhead:cluster": config.name,
        "railhead:owner": config.owner,
        "railhead:stack": stack,
    }


def identifying_tags(config: ClusterConfig, stack: str) -> dict[str, str]:
    """The tags that identify this stack's resources, whoever ran `pulumi up`."""
    every = tags(config, stack)
    return {key: every[key] for key in ("railhead:cluster", "railhead:stack")}
