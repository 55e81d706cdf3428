"""The id of a cluster: a random text, unique per stack, on every resource that has tags or labels.

Names collide where two people have a stack `gpu` in one account; this id does not. Pulumi's state
has it before the first resource of the cloud is created, so that machines which a broken `up`
leaves can be found and attributed.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Collection
from typing import Any, cast

import pulumi

NAME = "cluster-id"  # of the resource in Pulumi's state; bootstrap reads it there
BYTES = 6


def make_id() -> pulumi.Output[str]:
    """The stack's id: created at its first `up`, and the same at every later one."""
    kept = pulumi.Stash(
        NAME,
        input=secrets.token_hex(BYTES),
        opts=pulumi.ResourceOptions(ignore_changes=["input"]),
    )
    return kept.output


def on_every_resource(
    types: Collection[str], prop: str, key: str, cluster_id: pulumi.Output[str]
) -> pulumi.ResourceTransform:
    """A transform for a component: adds the id to each child that can have tags.

    Args:
        types: the types of the resources that can have tags.
        prop: the property with the tags: `tags` on AWS, `labels` on Google Cloud.
        key: the tag's name.
        cluster_id: the tag's value.
    """

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ not in types:
            return None
        own_tags = cast("dict[str, Any] | None", args.props.get(prop))  # plain in all our calls
        tagged = {**(own_tags or {}), key: cluster_id}
        return pulumi.ResourceTransformResult({**args.props, prop: tagged}, args.opts)

    return add


def warn_of_others(exist: Collection[str], made: Collection[str]) -> None:
    """Warn of machines that exist with this stack's id and are not among those of its config: a
    killed `up` left them, or this one removes them at its end."""
    others = sorted(set(exist) - set(made))
    if others:
        stack = shlex.quote(pulumi.get_stack())
        pulumi.log.warn(
            f"{', '.join(others)}: machines with this stack's id that its config does not have. "
            "Those that this `up` does not remove are in no state of Pulumi. "
            f"To see them: fab status --stack {stack}; to end them with the rest: "
            f"fab teardown --destroy --stack {stack}"
        )
