"""The parts of a cluster, as Pulumi shows them, and their names.

A logical name, as Pulumi's state has it, is a constant: `vpc`, `host-1`. A name in the cloud begins
with the cluster's name and is kept: another name of the cluster, or of its stack, replaces nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import pulumi

from .config.validators import ConfigError

BYTES = 4  # of the random end of a name: a resource that a killed `up` left may have the same begin


class Part(pulumi.ComponentResource):
    """A part of a cluster. `inner` are the options of its children: each waits for what the part
    waits for."""

    def __init__(self, kind: str, name: str, opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"railhead:{kind}", name, None, opts)
        self.inner = pulumi.ResourceOptions(parent=self, depends_on=opts.depends_on)


def placed(
    given: pulumi.ResourceOptions | None, own: pulumi.ResourceOptions
) -> pulumi.ResourceOptions:
    """The options of a cluster: `parent`, `depends_on`, `protect` and `aliases` of the program that
    uses it, and its own.

    Raises:
        ConfigError: a provider is given; the cluster's own has its region and its tags.
    """
    given = given or pulumi.ResourceOptions()
    if given.provider or given.providers:
        raise ConfigError(
            "opts: Cluster makes its own provider, with the region, the project and the tags of "
            "its config; leave provider and providers out\n"
            "  next: pulumi config set region REGION   # and project, for Google Cloud"
        )
    kept = pulumi.ResourceOptions(
        parent=given.parent,
        depends_on=given.depends_on,
        protect=given.protect,
        aliases=given.aliases,
    )
    return pulumi.ResourceOptions.merge(kept, own)


def unique(*parts: str) -> str:
    """A name in the cloud that no other resource has. Ignore its changes: each call differs."""
    return "-".join([*parts, secrets.token_hex(BYTES)])


def keeping(opts: pulumi.ResourceOptions, *properties: str) -> pulumi.ResourceOptions:
    """Options of a resource that keeps these properties as long as it exists."""
    return pulumi.ResourceOptions.merge(
        opts, pulumi.ResourceOptions(ignore_changes=list(properties))
    )


def known_by_former_names(
    cluster: str, component: str, bucket: str, former: Mapping[str, str]
) -> pulumi.ResourceTransform:
    """A transform for a cluster: each resource is also known by the name that it had until 0.1.0.

    Until then a logical name contained the cluster's name, and there were no parts: the parent was
    the cluster, or for the settings of a bucket the bucket.

    Args:
        cluster: the cluster's name.
        component: the type of its component.
        bucket: the type of its bucket.
        former: the former names, with {} for the cluster's name, of resources whose former name is
            not the cluster's name and the present one.
    """
    start = f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{component}"

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if not args.custom:
            return None
        name = f"{cluster}-{args.name.removeprefix('host-')}"
        if args.name in former:
            name = former[args.name].format(cluster)
        urns = [f"{start}{parent}${args.type_}::{name}" for parent in ("", f"${bucket}")]
        opts = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(aliases=[*urns]))
        return pulumi.ResourceTransformResult(args.props, opts)

    return add
