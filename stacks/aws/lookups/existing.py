"""The machines of the region: those of this stack, all that run, and those that are not in Pulumi's
state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
from pulumi_aws import ec2

from ... import cluster_id, names
from ...component.logical_names import LogicalNames
from ...config.settings import ClusterConfig
from ...rules.validators import ConfigError
from ..tags import CLUSTER, ID, OWNER, STACK
from .calls import lookup

INSTANCES = "aws:ec2/getInstances:getInstances"
SHOWN = 5  # machines of other stacks that are looked up one by one
LASTING = ("pending", "running", "stopping", "stopped")
ALIVE = (*LASTING, "shutting-down")


def existing_machines(
    own_id: str, opts: pulumi.InvokeOptions, **filters: list[str]
) -> tuple[str, ...]:
    """The machines of this stack that exist, in any state, by the stack's id."""
    return _instances({ID: own_id}, ALIVE, opts, filters)


def _instances(
    tags: dict[str, str] | None,
    states: Sequence[str],
    opts: pulumi.InvokeOptions,
    filters: Mapping[str, list[str]],
) -> tuple[str, ...]:
    """The ids of machines of the region; a filter `instance_type` is EC2's "instance-type"."""
    conditions = [
        ec2.GetInstancesFilterArgs(name=name.replace("_", "-"), values=values)
        for name, values in filters.items()
    ]
    instances = lookup(
        "ec2:DescribeInstances",
        lambda: ec2.get_instances(
            instance_tags=tags,
            instance_state_names=list(states),
            filters=conditions or None,
            opts=opts,
        ),
    )
    return tuple(sorted(instances.ids))


def check_names(config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions) -> None:
    """Refuse a new cluster if machines of another stack have its name. ConfigError: there are such
    machines."""
    try:
        if existing_machines(own_id, opts):
            return
        others = _instances({CLUSTER: config.name}, ALIVE, opts, {})
    except ConfigError as error:
        pulumi.log.warn(f"the names of machines are not checked: {error}")
        return
    described = [_describe(machine, opts) for machine in others[:SHOWN]]
    needed = names.needed(config)
    conflicts = [m for m in described if m.name in needed or m.name == m.id]
    # Machines without an id are this stack's own, of a version without ids.
    conflicts = [m for m in conflicts if m.cluster_id or m.stack != pulumi.get_stack()]
    names.refuse(config, conflicts, lambda name: bool(_instances({CLUSTER: name}, ALIVE, opts, {})))


def _describe(instance: str, opts: pulumi.InvokeOptions) -> names.Machine:
    try:
        tags = ec2.get_instance(instance_id=instance, opts=opts).tags
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.info(f"{instance}: its owner is not known: {error}")
        return names.Machine(instance, instance)
    return names.Machine(
        tags.get("Name", instance), instance, tags.get(OWNER), tags.get(STACK), tags.get(ID)
    )


def is_complete(config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions) -> bool:
    """Whether all machines of this stack exist, in any state: then an `up` creates none."""
    try:
        machines = existing_machines(own_id, opts, instance_type=[config.machine_type])
    except ConfigError:
        return False
    return len(machines) >= config.count


def is_other_family(config: ClusterConfig, own_id: str, opts: pulumi.InvokeOptions) -> bool:
    """Whether machines of this stack belong to another family than the configured type, such as g5
    instead of g4dn; also true if AWS does not list them."""
    family = f"{config.machine_type.partition('.')[0]}.*"
    try:
        machines = existing_machines(own_id, opts)
        alike = existing_machines(own_id, opts, instance_type=[family])
        return machines != alike
    except ConfigError:
        return True


def running_machines(opts: pulumi.InvokeOptions, **filters: list[str]) -> tuple[str, ...]:
    """The ids of all running machines of the region, whoever owns them."""
    return _instances(None, ("pending", "running"), opts, filters)


def not_twice(
    logical: LogicalNames, own_id: str, opts: pulumi.InvokeOptions
) -> pulumi.ResourceHook:
    """A hook before each creation of a machine: as in `cluster_id.not_twice`."""

    async def machines_of(number: str) -> list[str]:
        args = {
            "instanceTags": {ID: own_id},
            "instanceStateNames": list(LASTING),
            "filters": [{"name": "tag:Name", "values": [f"*-{number}"]}],
        }
        listed = await pulumi.runtime.invoke_async(INSTANCES, args, opts)
        return [str(machine) for machine in listed["ids"]]

    return cluster_id.not_twice(logical, machines_of)


def name_others(
    own_id: pulumi.Output[str], made: Sequence[pulumi.Output[str]], parent: pulumi.Resource
) -> pulumi.Output[list[str]]:
    """Warn of machines with this stack's id that are not among `made`: a killed `up` left them, or
    this one removes them at its end. Returns those of `made` that do not exist."""

    async def warn(values: list[str]) -> list[str]:
        tags = {"instanceTags": {ID: values[0]}, "instanceStateNames": list(ALIVE)}
        opts = pulumi.InvokeOptions(parent=parent)
        try:
            listed = await pulumi.runtime.invoke_async(INSTANCES, tags, opts)
        except Exception as error:  # the type that a failed invoke raises
            pulumi.log.info(f"machines with this stack's id cannot be counted: {error}")
            return []
        return cluster_id.warn_of_others(listed["ids"], values[1:])

    # After the machines: then a replaced one is gone.
    every: pulumi.Output[list[str]] = pulumi.Output.all(own_id, *made)
    return every.apply(warn)  # it accepts a coroutine, like any awaitable
