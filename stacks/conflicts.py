"""What values of a config cannot stand together, though each is right alone. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from stacks import machines
from stacks.rules import ConfigError, one_of

WIDEST = {4: 16, 6: 48}
AWS_IMAGES = ("dlami-base-ubuntu-22.04", "dlami-base-ubuntu-24.04", "ubuntu-22.04", "ubuntu-24.04")
GCP_IMAGES = ("dlvm-cu129-ubuntu-2204", "dlvm-cu129-ubuntu-2404", "ubuntu-2204", "ubuntu-2404")


def conflicts(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with values that are each right alone, one line each."""
    here = values["cloud"]
    found = [*_wide(values), *_in_region(values)] if here != "local" else []
    if here == "aws":
        found += _aws(values)
    return found + (_gcp(values) if here == "gcp" else [])


def _wide(values: Mapping[str, Any]) -> list[str]:
    if values["allow_wide_cidr"]:
        return []
    networks = [ipaddress.ip_network(text) for text in values["ssh_cidrs"]]
    return [
        f"ssh_cidrs: {network} is wider than /{WIDEST[network.version]}: name your own address "
        "with /32 (IPv6: /128), or set allow_wide_cidr to true"
        for network in networks
        if network.prefixlen < WIDEST[network.version]
    ]


def _in_region(values: Mapping[str, Any]) -> list[str]:
    place = values["region"]
    return [
        f"zones: {zone!r} is not in the region {place}"
        for zone in values["zones"] or ()
        if not (zone.startswith(place) and len(zone) <= len(place) + 2)
    ]


def _aws(values: Mapping[str, Any]) -> list[str]:
    found = [
        *_refusal("machine_type", values["machine_type"], machines.AWS),
        *_refusal("region", values["region"], machines.AWS_REGIONS),
    ]
    found += _image(values, AWS_IMAGES, own="ami-")
    if values["network"] and not values["network"].startswith("vpc-"):
        found.append(f"network: {values['network']!r} is not a VPC's id, as in vpc-0a1b2c3d")
    if values["placement"] and values["count"] == 1:
        found.append("placement: one host has nobody to be placed beside; count is 1")
    if values["placement"] and values["spot"]:
        found.append(
            "placement: not with spot: one machine that cannot be had, or is taken away, "
            "ends the group; set one of them to false"
        )
    return found


def placement_by_default(values: Mapping[str, Any]) -> bool:
    """Close together, where there is more than one and none is taken away by itself."""
    return bool(values["count"] > 1 and not values["spot"])


def _image(values: Mapping[str, Any], ours: tuple[str, ...], *, own: str) -> list[str]:
    image = values["image"]
    if image is None or image.startswith(own):
        return []
    if image.startswith("dl") and has_v100(values):
        choices = ", ".join(name for name in ours if not name.startswith("dl"))
        return [f"image: the driver of {image} does not know V100; one of {choices}"]
    return _refusal("image", image, ours)


def has_v100(values: Mapping[str, Any]) -> bool:
    """Whether the machines' cards are of the Volta generation."""
    return values["machine_type"].startswith("p3") or values.get("gpu_type") == "nvidia-tesla-v100"


def image_by_default(values: Mapping[str, Any]) -> str:
    """The cloud's deep learning image; Ubuntu's for cards that its driver does not know."""
    return (AWS_IMAGES if values["cloud"] == "aws" else GCP_IMAGES)[2 if has_v100(values) else 0]


def _gcp(values: Mapping[str, Any]) -> list[str]:
    found = [
        *_refusal("machine_type", values["machine_type"], machines.GCP),
        *_refusal("gpu_type", values["gpu_type"], machines.GCP_CARDS),
    ]
    if not machines.is_gcp_region(values["region"]):
        found.append(f"region: {values['region']!r} is not a region of gcp, as in us-central1")
    found += _image(values, GCP_IMAGES, own="projects/")
    if values["quotas"] == "request" and not values["contact_email"]:
        found.append("contact_email: not set, and Google asks for one with a quota request")
    return found or [*_cards(values), *_zones_with_cards(values)]


def _cards(values: Mapping[str, Any]) -> list[str]:
    card, cards = values["gpu_type"], values["gpu_count"]
    most = machines.GCP_CARDS[card]
    if cards not in most:
        choices = ", ".join(map(str, most))
        return [f"gpu_count: {cards} {card}: an n1 machine takes {choices}"]
    if machines.GCP[values["machine_type"]] > most[cards]:
        return [
            f"machine_type: {values['machine_type']} has more than the {most[cards]} vCPUs that "
            f"go with {cards} {card}"
        ]
    return []


def _zones_with_cards(values: Mapping[str, Any]) -> list[str]:
    card, place = values["gpu_type"], values["region"]
    if card != "nvidia-tesla-t4":
        return []
    known = machines.zones_with(card, place)
    if not known:
        return [f"region: no zone of {place} is known to have {card}; one of "
                f"{', '.join(machines.T4_ZONES)}"]  # fmt: skip
    return [
        f"zones: {zone} is not known to have {card}; in {place} there are {', '.join(known)}"
        for zone in values["zones"] or ()
        if zone not in known and zone.startswith(place)
    ]


def _refusal(key: str, text: str, choices: Iterable[str]) -> list[str]:
    try:
        one_of(key, text, choices)
    except ConfigError as error:
        return [str(error)]
    return []
