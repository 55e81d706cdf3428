"""The tags on everything that can have one: whose it is, and which cluster's. Pure."""

from __future__ import annotations

from stacks.settings import ClusterConfig


def tags(config: ClusterConfig, stack: str) -> dict[str, str]:
    """By these a bill is split, and what was forgotten is found."""
    return {
        "railhead:cluster": config.name,
        "railhead:owner": config.owner,
        "railhead:stack": stack,
    }


def ours(config: ClusterConfig, stack: str) -> dict[str, str]:
    """The tags by which what this stack made is known, whoever ran `pulumi up`."""
    known = tags(config, stack)
    return {key: known[key] for key in ("railhead:cluster", "railhead:stack")}
