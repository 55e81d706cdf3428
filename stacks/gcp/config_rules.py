"""Google Cloud: which config values contradict each other, and the default image. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stacks.gcp.machine_types import GPU_LIMITS, T4_ZONES, VCPUS, zones_with
from stacks.validation import (
    data_elsewhere,
    not_one_of,
    unsupported_image,
    wide_networks,
    zones_outside_region,
)

IMAGES = ("dlvm-cu129-ubuntu-2204", "dlvm-cu129-ubuntu-2404", "ubuntu-2204", "ubuntu-2404")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def contradictions(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with values that are each valid, one line each."""
    general = [
        *wide_networks(values),
        *zones_outside_region(values),
        *data_elsewhere(values, "gs"),
    ]
    found = [
        *not_one_of("machine_type", values["machine_type"], VCPUS),
        *not_one_of("gpu_type", values["gpu_type"], GPU_LIMITS),
    ]
    if not _REGION.fullmatch(values["region"]):
        found.append(f"region: {values['region']!r} is not a region of gcp, as in us-central1")
    found += image_errors(values)
    if values["quotas"] == "request" and not values["contact_email"]:
        found.append("contact_email: not set, and Google requires one for a quota request")
    return general + (found or [*_gpus(values), *_zones_without_gpus(values)])


def defaults(values: Mapping[str, Any]) -> dict[str, object]:
    """`image`."""
    return {"image": default_image(values)}


def image_errors(values: Mapping[str, Any]) -> list[str]:
    """Why the image cannot be used, if there is a reason."""
    return unsupported_image(values, IMAGES, id_prefix="projects/", v100=_has_v100(values))


def default_image(values: Mapping[str, Any]) -> str:
    """The deep learning image; for V100, which its driver no longer supports, Ubuntu's."""
    return IMAGES[2 if _has_v100(values) else 0]


def _has_v100(values: Mapping[str, Any]) -> bool:
    return bool(values["gpu_type"] == "nvidia-tesla-v100")


def _gpus(values: Mapping[str, Any]) -> list[str]:
    gpu, count, machine = values["gpu_type"], values["gpu_count"], values["machine_type"]
    limits = GPU_LIMITS[gpu]
    if count not in limits:
        choices = ", ".join(map(str, limits))
        return [f"gpu_count: {count} {gpu}: an n1 machine takes {choices}"]
    if VCPUS[machine] > limits[count]:
        return [
            f"machine_type: {machine} has more than the {limits[count]} vCPUs that go with "
            f"{count} {gpu}"
        ]
    return []


def _zones_without_gpus(values: Mapping[str, Any]) -> list[str]:
    gpu, region = values["gpu_type"], values["region"]
    if gpu != "nvidia-tesla-t4":
        return []
    known = zones_with(gpu, region)
    if not known:
        return [f"region: no zone of {region} is known to have {gpu}; one of "
                f"{', '.join(T4_ZONES)}"]  # fmt: skip
    return [
        f"zones: {zone} is not known to have {gpu}; in {region} there are {', '.join(known)}"
        for zone in values["zones"] or ()
        if zone not in known and zone.startswith(region)
    ]
