"""What EC2 answers before anything is made: who sells the type, which machines exist already.

Each raises ConfigError where rights lack: nothing is made on a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pulumi
from pulumi_aws import ec2

from stacks.aws.tags import ours
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

T = TypeVar("T")
ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


def zones_that_sell(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The zones of the region with the machine type, by name; empty where it is sold no more."""
    answer = answered(
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


def machines_here(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The ids of this stack's machines that exist, in whatever state, by their tags."""
    answer = answered(
        "ec2:DescribeInstances",
        lambda: ec2.get_instances(
            instance_tags=ours(config, pulumi.get_stack()),
            instance_state_names=list(ALIVE),
            opts=opts,
        ),
    )
    return tuple(sorted(answer.ids))


def answered(right: str, ask: Callable[[], T]) -> T:
    """What AWS answers.

    Raises:
        ConfigError: it does not; `right` is what the person needs.
    """
    try:
        return ask()
    except Exception as error:  # that is what a failed invoke raises
        raise ConfigError(
            f"AWS did not answer {right}: {error}\n  next: aws sts get-caller-identity   "
            f"# who you are there; the right {right} is needed"
        ) from None
