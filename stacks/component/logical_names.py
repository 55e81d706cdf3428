"""The logical names of a cluster's resources: those that Pulumi's state has.

Each begins with the logical name of its cluster, which is the first argument of `Cluster`, so that
a program can have several. In our own program it is a constant, so that another name of the
cluster, or of its stack, replaces nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pulumi

from ..config.settings import ClusterConfig

# The clusters of each program, by its root resource: logical names, and names in the cloud.
_MADE: WeakKeyDictionary[pulumi.Resource, dict[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LogicalNames:
    """The names of one cluster. The first cluster of a program also has the resources of earlier
    versions, whose names did not begin with a cluster's."""

    cluster: str
    is_first: bool = True

    def of(self, name: str) -> str:
        """The name of a resource, as in cluster-vpc."""
        return f"{self.cluster}-{name}"

    def former(self, *names: str) -> list[pulumi.Alias | str]:
        """The names that a resource had in earlier versions, as its aliases."""
        others = [name for name in names if not name.startswith(self.of(""))]
        return [pulumi.Alias(name=name) for name in others] if self.is_first else []

    def known(self, *names: str) -> pulumi.ResourceOptions:
        """As `former`, as options."""
        return pulumi.ResourceOptions(aliases=self.former(*names))


class Named(pulumi.ComponentResource):
    """A component whose children have names that begin with the name of its `cluster`."""

    cluster: str = ""

    def named(self, name: str) -> str:
        """The name of a child."""
        return LogicalNames(self.cluster).of(name) if self.cluster else name


def named(opts: pulumi.ResourceOptions | None, name: str) -> str:
    """The name of a resource with these options: it begins with the name of the cluster that its
    parent is, or belongs to."""
    parent = opts.parent if opts else None
    return parent.named(name) if isinstance(parent, Named) else name


def names_of(cluster: str, config: ClusterConfig) -> LogicalNames:
    """The names of a new cluster of this program. RunError: another cluster of this program has one
    of its names."""
    program = pulumi.runtime.get_root_resource()
    made = _MADE.setdefault(program, {}) if program else {}
    if cluster in made:
        raise pulumi.RunError(f"{cluster!r} is the logical name of two clusters of this program")
    if config.name in made.values():
        raise pulumi.RunError(
            f"name: two clusters of this program are called {config.name!r}, and so would their "
            "machines"
        )
    made[cluster] = config.name
    return LogicalNames(cluster, len(made) == 1)


def known_by_former_names(
    names: LogicalNames, cluster: str, component: str, bucket: str, former: Mapping[str, str]
) -> pulumi.ResourceTransform:
    """A transform for a cluster: each resource is also known by the names that it had before.

    Until 0.1.0 a logical name contained the cluster's name in the cloud, and there were no parts:
    the parent was the cluster, or for the settings of a bucket the bucket. Later it was a constant,
    as in `vpc`.

    Args:
        cluster: the cluster's name in the cloud.
        component: the type of its component.
        bucket: the type of its bucket.
        former: the names until 0.1.0, with {} for the cluster's name, of resources whose name was
            not the cluster's name and the constant.
    """
    start = f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{component}"

    def add(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        name = args.name.removeprefix(names.of(""))
        aliases = names.former(name)
        if args.custom:
            first = f"{cluster}-{name.removeprefix('host-')}"
            if name in former:
                first = former[name].format(cluster)
            aliases += [f"{start}{parent}${args.type_}::{first}" for parent in ("", f"${bucket}")]
        opts = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(aliases=aliases))
        return pulumi.ResourceTransformResult(args.props, opts)

    return add
