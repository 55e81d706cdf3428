"""Lookups in AWS before anything is made: zones that offer the type, machines that exist.

Each raises ConfigError where a permission is missing: nothing is made on a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pulumi
from pulumi_aws import ec2

from stacks.aws.tags import identifying_tags
from stacks.settings import ClusterConfig
from stacks.validators import ConfigError

T = TypeVar("T")
ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


def zones_with_type(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The zones of the region with the machine type, by name; empty where none offers it."""
    answer = lookup(
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
    return tuple(sorted(answer.locations))


def existing_machines(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The ids of this stack's machines that exist, in any state, by their tags."""
    answer = lookup(
        "ec2:DescribeInstances",
        lambda: ec2.get_instances(
            instance_tags=identifying_tags(config, pulumi.get_stack()),
            instance_state_names=list(ALIVE),
            opts=opts,
        ),
    )
    return tuple(sorted(answer.ids))


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
