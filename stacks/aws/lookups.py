"""Lookups in AWS before anything is made: the account, zones that offer the type, machines.

Each raises ConfigError where a permission is missing: nothing is made on a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pulumi
import pulumi_aws as aws
from pulumi_aws import ec2

from stacks import cluster_id
from stacks.aws.tags import ID, identifying_tags
from stacks.config.settings import ClusterConfig
from stacks.config.validators import ConfigError

T = TypeVar("T")
INSTANCES = "aws:ec2/getInstances:getInstances"
ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


@dataclass(frozen=True)
class Caller:
    """Who runs the command: the number of the account, and the identity in it."""

    account: str
    arn: str


def caller(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Caller:
    """Who runs the command. This is the first call: it also shows whether AWS can be reached
    in the region.

    Raises:
        ConfigError: AWS does not answer there.
    """
    try:
        found = aws.get_caller_identity(opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"region: AWS does not answer in {config.region}: {error}\n"
            "  next: aws sts get-caller-identity && aws ec2 describe-regions --all-regions "
            "--query Regions[].[RegionName,OptInStatus]   # your identity, and your regions"
        ) from None
    return Caller(found.account_id, found.arn)


def zones_with_type(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The zones of the region with the machine type, by name; empty where none offers it."""
    found = lookup(
        "ec2:DescribeInstanceTypeOfferings",
        lambda: ec2.get_instance_type_offerings(
            location_type="availability-zone",
            filters=[
                ec2.GetInstanceTypeOfferingsFilterArgs(
                    name="instance-type", values=[config.machine_type]
                )
            ],
            opts=opts,
        ),
    )
    return tuple(sorted(found.locations))


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


def lookup(permission: str, call: Callable[[], T]) -> T:
    """The result of a call to AWS.

    Raises:
        ConfigError: it failed; the message names the permission that it needs.
    """
    try:
        return call()
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"AWS refused {permission}: {error}\n  next: aws sts get-caller-identity   "
            f"# your identity; it needs the permission {permission}"
        ) from None
