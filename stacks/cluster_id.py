"""The id of a cluster: a random text, unique per stack, on every resource that has tags or labels.

Names collide if two people have a stack `gpu` in one account; this id does not. Pulumi's state has
it before the first resource of the cloud is created, so that machines which a broken `up` leaves
can be found and attributed.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi

from railhead.installation import PROGRAM

from .component.logical_names import LogicalNames

NAME = "id"  # of the resource in Pulumi's state, after the cluster's name; bootstrap reads it
FORMER = "cluster-id"
BYTES = 6


@dataclass(frozen=True)
class ClusterId:
    """The id of a stack. `value` is known before the next resource is registered; it is unknown
    only in a preview under mocks."""

    output: pulumi.Output[str]
    value: str


def make_id(names: LogicalNames) -> ClusterId:
    """The cluster's id: created at its first `up`, and the same at every later one."""
    created = secrets.token_hex(BYTES)
    opts = pulumi.ResourceOptions(ignore_changes=["input"], aliases=names.former(FORMER))
    kept = pulumi.Stash(names.of(NAME), input=created, opts=opts)
    return ClusterId(kept.output, str(read(kept).get("output") or created))


def read(kept: pulumi.Resource) -> Mapping[str, Any]:
    """The outputs of a resource; waits until the engine has registered it."""
    registered = pulumi.runtime.invoke("pulumi:pulumi:getResource", {"urn": kept.urn}).value
    return registered["state"] if registered else {}


def on_every_resource(
    types: Collection[str], prop: str, tags: Mapping[str, pulumi.Input[str]]
) -> pulumi.ResourceTransform:
    """A transform for a component: adds tags, such as the id, to each child of these types. `prop`
    has them: `tags` on AWS, `labels` on Google Cloud."""

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ not in types:
            return None
        own_tags = cast("dict[str, Any] | None", args.props.get(prop))  # plain in all our calls
        tagged = {**tags, **(own_tags or {})}
        return pulumi.ResourceTransformResult({**args.props, prop: tagged}, args.opts)

    return add


def not_twice(
    names: LogicalNames, machines_of: Callable[[str], Awaitable[Collection[str]]]
) -> pulumi.ResourceHook:
    """A hook before each creation of a machine: it is refused if the cloud already has the machine
    of this number, left by a killed `up`. Pulumi's state lacks it, so a second one would be
    created. `machines_of`: those that exist with this stack's id and a number, such as "2"."""

    async def check(args: pulumi.ResourceHookArgs) -> None:
        if ids := sorted(await machines_of(args.name.rpartition("-")[2])):
            again = f"{PROGRAM} up --stack {shlex.quote(pulumi.get_stack())}"
            raise pulumi.RunError(
                f"{args.name} exists already, in no state of Pulumi: {', '.join(ids)} has this "
                f"stack's id. A killed `up` left it\n  next: {again}   # ends it, then continues"
            )

    # Not in a preview: there a machine that will be replaced still exists.
    return pulumi.ResourceHook(names.of("machine"), check)


def warn_of_others(exist: Collection[str], made: Collection[str]) -> list[str]:
    """Warn of machines that exist with this stack's id and are not among those of its config: a
    killed `up` left them, or this one removes them at its end. Returns those of its config that do
    not exist, such as reclaimed spot machines: Pulumi's state has them until it is refreshed."""
    others = sorted(set(exist) - set(made))
    if others:
        stack = shlex.quote(pulumi.get_stack())
        pulumi.log.warn(
            f"{', '.join(others)}: machines with this stack's id that its config does not have. "
            "Those that this `up` does not remove are in no state of Pulumi. "
            f"To see them: {PROGRAM} status --stack {stack}; to end them: {PROGRAM} up --stack "
            f"{stack}; to end all: {PROGRAM} teardown --destroy --stack {stack}"
        )
    return sorted(set(made) - set(exist))
