"""Rules for config values that are each valid but contradict each other. Pure.

These hold for every cloud; a cloud's own rules are in aws.py and gcp.py. A rule takes
the values of a config and yields an error per contradiction. It reads only values that it needs: if
one of them is wrong by itself, the rule is skipped.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from railhead.documents import rule
from railhead.installation import PROGRAM

from ..next_command import rm, set_
from .validators import ConfigError, fitting, refused_word

Values = Mapping[str, Any]
Rule = Callable[[Values], Iterable[ConfigError]]
WIDEST = {4: 16, 6: 48}  # the shortest prefix per IP version that `ssh_cidrs` may have
OWN_ADDRESS = set_("ssh_cidrs", '"$(curl -4 -s https://checkip.amazonaws.com)/32"')
# Nobody connects to a public address from these: private, shared, loopback, link-local, benchmark,
# multicast and reserved networks. The networks of documentation are not among them.
UNREACHABLE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
        "::/127", "fc00::/7", "fe80::/10", "ff00::/8",
    )
)  # fmt: skip


class Valid(dict[str, Any]):
    """The valid values of a config. Reading one of `wrong`, the keys whose value is not valid,
    raises Unread."""

    def __init__(self, values: Mapping[str, Any], wrong: Iterable[str]) -> None:
        super().__init__(values)
        self.wrong = frozenset(wrong)

    def __missing__(self, key: str) -> Any:
        raise Unread(key) if key in self.wrong else KeyError(key)


class Unread(Exception):
    """A rule needs a value that is wrong by itself."""


def contradictions(rules: Iterable[Rule], values: Valid) -> list[ConfigError]:
    """The contradictions that the rules find; rules that need a wrong value are skipped."""
    errors = []
    for each in rules:
        try:
            errors += [*each(values)]
        except Unread:
            continue
    return errors


def wide_networks(values: Values) -> Iterator[ConfigError]:
    """Networks of `ssh_cidrs` that are too wide, unless `allow_wide_cidr` is set."""
    for network in map(ipaddress.ip_network, values["ssh_cidrs"]):
        widest = WIDEST[network.version]
        if network.prefixlen < widest and not values["allow_wide_cidr"]:
            yield ConfigError(
                f"ssh_cidrs: {network} is wider than /{widest}: name your own address with /32"
                " (IPv6: /128), or set allow_wide_cidr to true",
                OWN_ADDRESS,
            )


def unreachable_networks(values: Values) -> Iterator[ConfigError]:
    """Networks of `ssh_cidrs` that cannot connect: hosts have public addresses."""
    for network in map(ipaddress.ip_network, values["ssh_cidrs"]):
        if any(_inside(network, other) for other in UNREACHABLE):
            yield ConfigError(
                f"ssh_cidrs: {network} is private, multicast or reserved; hosts have public"
                " addresses and see your public address, not that of your own network",
                OWN_ADDRESS,
            )


def _inside(network: Any, other: Any) -> bool:
    return network.version == other.version and bool(network.subnet_of(other))


def zones_outside_region(values: Values) -> Iterator[ConfigError]:
    """Zones that are not in the region."""
    region: str = values["region"]
    zones: tuple[str, ...] = values["zones"] or ()
    elsewhere = [zone for zone in zones if _region_of(zone) != region]
    if not elsewhere:
        return
    here = [zone for zone in zones if zone not in elsewhere] or [
        zone for zone in zones if _region_of(zone) == _region_of(zones[0])
    ]
    commands = [set_("zones", ",".join(here))] if len(here) < len(zones) else []
    if _region_of(here[0]) != region:
        commands.append(set_("region", _region_of(here[0])))
    are = "is" if len(elsewhere) == 1 else "are"
    yield ConfigError(
        f"zones: {', '.join(elsewhere)} {are} not in the region {region}; all zones must be in it",
        *[piece for command in commands for piece in ("&&", command)][1:],
        "  # or:",
        rm("zones"),
    )


def _region_of(zone: str) -> str:
    """The region whose name a zone begins with: us-east-1 of us-east-1b, us-west-2-lax-1a."""
    match = re.match(r"[a-z]+-[a-z]+-?\d+", zone)
    return match[0] if match else zone


def name_of_no_bucket(values: Values) -> Iterator[ConfigError]:
    """A name for a bucket that is not created."""
    if values["bucket_name"] and not values["bucket"]:
        yield ConfigError(
            f"bucket_name: {values['bucket_name']!r} names a bucket, and bucket is false",
            rm("bucket_name"),
            "  # or:",
            set_("bucket", "true"),
        )


def google_in_the_bucket(values: Values) -> Iterator[ConfigError]:
    """A cluster's name that Google would refuse as a part of its bucket's name."""
    word = refused_word(values["name"])
    if word and values["bucket"] and not values["bucket_name"]:
        yield ConfigError(
            f"name: the bucket railhead-{values['name']} would contain {word!r}, which Google"
            " refuses",
            set_("bucket_name", "..."),
            "  # or:",
            set_("name", "..."),
        )


def unsupported_image(
    values: Values, names: tuple[str, ...], *, id_prefix: str, v100: bool
) -> Iterator[ConfigError]:
    """An image that is not one of `names` or an id of the cloud, or has no driver for V100. The
    drivers of the clouds' deep learning images (`dl...`) no longer support V100."""
    image = values["image"]
    if image is None or image.startswith(id_prefix):
        return
    if image.startswith("dl") and v100:
        choices = ", ".join(name for name in names if not name.startswith("dl"))
        why = f"the driver of {image} does not support V100; one of {choices}"
        yield ConfigError(f"image: {why}", rm("image"))
    else:
        yield from not_one_of("image", image, names)


def data_elsewhere(values: Values, scheme: str) -> Iterator[ConfigError]:
    """Data in the buckets of another cloud, where these hosts have no rights."""
    for prefix in values["data_buckets"] or ():
        if prefix.scheme != scheme:
            yield ConfigError(
                f"data_buckets: {prefix} is in another cloud; the role of these hosts reads"
                f" {scheme}:// only. For another cloud send credentials with the run: {PROGRAM}"
                " train --secret",
                rm("data_buckets"),
            )


def key_type(values: Values) -> str:
    """The type of the public key, as in ssh-ed25519."""
    path: Path = values["public_key_file"]
    return path.read_text().split()[0]


def not_one_of(key: str, text: str, choices: Iterable[str]) -> Iterator[ConfigError]:
    """A text that is none of the choices."""
    try:
        fitting(key, text, rule.Rule(choices=tuple(choices)))
    except ConfigError as error:
        yield error
