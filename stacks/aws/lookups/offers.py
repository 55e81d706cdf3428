"""Which zones have the machines."""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2

from ...config.settings import ClusterConfig
from .calls import lookup


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
