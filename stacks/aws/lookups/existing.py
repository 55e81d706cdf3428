"""The machines of the region: those of this stack, all that run, and those that are in no state."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2

from ... import cluster_id
from ...config.settings import ClusterConfig
from ...config.validators import ConfigError
from ..tags import ID, identifying_tags
from .calls import lookup

INSTANCES = "aws:ec2/getInstances:getInstances"
ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


def existing_machines(
    config: ClusterConfig, opts: pulumi.InvokeOptions, **filters: list[str]
) -> tuple[str, ...]:
    """The ids of this stack's machines that exist, in any state, by their tags."""
    found = lookup(
        "ec2:DescribeInstances",
        lambda: ec2.get_instances(
            instance_tags=identifying_tags(config, pulumi.get_stack()),
            instance_state_names=list(ALIVE),
            filters=_filters(filters),
            opts=opts,
        ),
    )
    return tuple(sorted(found.ids))


def is_complete(config: ClusterConfig, opts: pulumi.InvokeOptions) -> bool:
    """Whether all machines of this stack exist, in any state: then an `up` makes none."""
    try:
        own = existing_machines(config, opts, instance_type=[config.machine_type])
    except ConfigError:
        return False
    return len(own) >= config.count


def running_machines(opts: pulumi.InvokeOptions, **filters: list[str]) -> tuple[str, ...]:
    """The ids of all machines of the region that run, of whoever they are."""
    found = lookup(
        "ec2:DescribeInstances",
        lambda: ec2.get_instances(
            instance_state_names=["pending", "running"], filters=_filters(filters), opts=opts
        ),
    )
    return tuple(sorted(found.ids))


def _filters(values: dict[str, list[str]]) -> list[ec2.GetInstancesFilterArgs] | None:
    """EC2's filters; instance_type is its "instance-type"."""
    found = [
        ec2.GetInstancesFilterArgs(name=name.replace("_", "-"), values=each)
        for name, each in values.items()
    ]
    return found or None


def name_others(
    own_id: pulumi.Output[str], made: Sequence[pulumi.Output[str]], parent: pulumi.Resource
) -> None:
    """Warn of machines with this stack's id that are not among `made`: a killed `up` left them, or
    this one removes them at its end."""

    async def warn(values: list[str]) -> bool:
        tags = {"instanceTags": {ID: values[0]}, "instanceStateNames": list(ALIVE)}
        opts = pulumi.InvokeOptions(parent=parent)
        try:
            found = await pulumi.runtime.invoke_async(INSTANCES, tags, opts)
        except Exception as error:  # the type that a failed invoke raises
            pulumi.log.info(f"machines with this stack's id cannot be counted: {error}")
            return False
        cluster_id.warn_of_others(found["ids"], values[1:])
        return True

    # After the machines: one that is replaced is gone then.
    every: pulumi.Output[list[str]] = pulumi.Output.all(own_id, *made)
    every.apply(warn)  # type: ignore[arg-type]  # it accepts a coroutine, as any awaitable
