"""The parts of a cluster, as Pulumi shows them, and their names in the cloud.

A name in the cloud begins with the cluster's name and is kept: another name of the cluster, or of
its stack, replaces nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import pulumi

from .logical_names import Named, named

BYTES = 4  # random, at the end of a name: one that a killed `up` left may begin alike


class Part(Named):
    """A part of a cluster. `inner` are the options of its children: each waits for what the part
    waits for."""

    def __init__(self, kind: str, name: str, opts: pulumi.ResourceOptions) -> None:
        super().__init__(f"railhead:{kind}", named(opts, name), None, opts)
        self.cluster = opts.parent.cluster if isinstance(opts.parent, Named) else ""
        self.inner = pulumi.ResourceOptions(parent=self, depends_on=opts.depends_on)


def given_provider(
    opts: pulumi.ResourceOptions | None, package: str
) -> pulumi.ProviderResource | None:
    """The provider of a cloud that a program gives to its cluster, if any."""
    opts = opts or pulumi.ResourceOptions()
    several = opts.providers or ()
    listed = several.values() if isinstance(several, Mapping) else several
    each = [opts.provider, *([listed] if isinstance(listed, pulumi.ProviderResource) else listed)]
    return next((provider for provider in each if provider and provider.package == package), None)


def placed(
    opts: pulumi.ResourceOptions | None, inner: pulumi.ResourceOptions
) -> pulumi.ResourceOptions:
    """The options of a cluster: `parent`, `depends_on`, `protect` and `aliases` of the program that
    uses it, and its own."""
    opts = opts or pulumi.ResourceOptions()
    kept = pulumi.ResourceOptions(
        parent=opts.parent, depends_on=opts.depends_on, protect=opts.protect, aliases=opts.aliases
    )
    return pulumi.ResourceOptions.merge(kept, inner)


def plus(opts: pulumi.ResourceOptions, **more: Any) -> pulumi.ResourceOptions:
    """These options, and more."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(**more))


def after(opts: pulumi.ResourceOptions | None, *others: pulumi.Resource) -> pulumi.ResourceOptions:
    """What the resources of a cluster wait for: the program's `depends_on`, and others."""
    before = pulumi.ResourceOptions(depends_on=opts.depends_on if opts else None)
    return plus(before, depends_on=[*others])


def unique(*parts: str) -> str:
    """A name in the cloud that no other resource has. Ignore its changes: each call returns another
    one."""
    return "-".join([*parts, secrets.token_hex(BYTES)])


def keeping(opts: pulumi.ResourceOptions, *properties: str) -> pulumi.ResourceOptions:
    """Options of a resource that keeps these properties as long as it exists."""
    return plus(opts, ignore_changes=list(properties))
