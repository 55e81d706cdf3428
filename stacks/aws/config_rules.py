"""AWS: which config values contradict each other, and the defaults that depend on others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacks.aws.machine_types import TYPES
from stacks.machine_types import V100
from stacks.validation import (
    data_elsewhere,
    not_one_of,
    unsupported_image,
    wide_networks,
    zones_outside_region,
)

IMAGES = ("dlami-base-ubuntu-22.04", "dlami-base-ubuntu-24.04", "ubuntu-22.04", "ubuntu-24.04")
REGIONS = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1",
    "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1", "eu-south-1",
    "eu-south-2", "ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2",
    "ap-southeast-3", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-east-1",
    "me-central-1", "me-south-1", "il-central-1", "af-south-1",
)  # fmt: skip


def contradictions(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with values that are each valid, one line each."""
    found = [
        *wide_networks(values),
        *zones_outside_region(values),
        *not_one_of("machine_type", values["machine_type"], TYPES),
        *not_one_of("region", values["region"], REGIONS),
        *image_errors(values),
        *data_elsewhere(values, "s3"),
    ]
    if values["network"] and not values["network"].startswith("vpc-"):
        found.append(f"network: {values['network']!r} is not a VPC's id, as in vpc-0a1b2c3d")
    return found + _placement(values)


def defaults(values: Mapping[str, Any]) -> dict[str, object]:
    """`image` and `placement`: on-demand machines of one cluster are placed close together."""
    return {
        "image": default_image(values),
        "placement": bool(values["count"] > 1 and not values["spot"]),
    }


def image_errors(values: Mapping[str, Any]) -> list[str]:
    """Why the image cannot be used, if there is a reason."""
    return unsupported_image(values, IMAGES, id_prefix="ami-", v100=_has_v100(values))


def default_image(values: Mapping[str, Any]) -> str:
    """The deep learning image; for V100, which its driver no longer supports, Ubuntu's."""
    return IMAGES[2 if _has_v100(values) else 0]


def _placement(values: Mapping[str, Any]) -> list[str]:
    found = []
    if values["placement"] and values["count"] == 1:
        found.append("placement: a placement group needs two or more hosts; count is 1")
    if values["placement"] and values["spot"]:
        found.append(
            "placement: not with spot: one machine that AWS cannot start, or takes away, "
            "ends the group; set one of them to false"
        )
    return found


def _has_v100(values: Mapping[str, Any]) -> bool:
    machine = TYPES.get(values["machine_type"])
    return machine is not None and machine.gpu == V100
