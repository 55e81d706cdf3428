"""Rules for config values that are each valid but contradict each other. Pure.

These hold for every cloud; a cloud's own rules are in its folder (config_rules.py). Each function
returns one line per broken rule.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from stacks.validators import ConfigError, one_of

WIDEST = {4: 16, 6: 48}  # the shortest prefix per IP version that `ssh_cidrs` may have


def wide_networks(values: Mapping[str, Any]) -> list[str]:
    """Networks of `ssh_cidrs` that are too wide, unless `allow_wide_cidr` is set."""
    if values["allow_wide_cidr"]:
        return []
    networks = [ipaddress.ip_network(text) for text in values["ssh_cidrs"]]
    return [
        f"ssh_cidrs: {network} is wider than /{WIDEST[network.version]}: name your own address "
        "with /32 (IPv6: /128), or set allow_wide_cidr to true"
        for network in networks
        if network.prefixlen < WIDEST[network.version]
    ]


def zones_outside_region(values: Mapping[str, Any]) -> list[str]:
    """Zones that are not in the region."""
    region = values["region"]
    return [
        f"zones: {zone!r} is not in the region {region}"
        for zone in values["zones"] or ()
        if not (zone.startswith(region) and len(zone) <= len(region) + 2)
    ]


def unsupported_image(
    values: Mapping[str, Any], names: tuple[str, ...], *, id_prefix: str, v100: bool
) -> list[str]:
    """An image that is none of `names` and no id of the cloud, or has no driver for V100.

    The drivers of the clouds' deep learning images (`dl...`) no longer support V100.
    """
    image = values["image"]
    if image is None or image.startswith(id_prefix):
        return []
    if image.startswith("dl") and v100:
        choices = ", ".join(name for name in names if not name.startswith("dl"))
        return [f"image: the driver of {image} does not support V100; one of {choices}"]
    return not_one_of("image", image, names)


def data_elsewhere(values: Mapping[str, Any], scheme: str) -> list[str]:
    """Data in the buckets of another cloud, where the rights of these hosts do not count."""
    return [
        f"data_buckets: {one} is in another cloud; the role of these hosts reads {scheme}:// only. "
        "For another cloud send credentials with the run: fab train --secret"
        for one in values["data_buckets"] or ()
        if one.scheme != scheme
    ]


def not_one_of(key: str, text: str, choices: Iterable[str]) -> list[str]:
    """The message of `one_of`, if the text is none of the choices."""
    try:
        one_of(key, text, choices)
    except ConfigError as error:
        return [str(error)]
    return []
