"""AWS: which config values contradict each other, and the defaults that depend on others. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import partial

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.machine_types import V100

from ..machine_types.aws import TYPES
from ..machine_types.types import MachineType
from ..next_command import rm, set_
from ..timer.deadline import IDLE_MINUTES
from . import rules
from .rules import OWN_ADDRESS, Values, not_one_of
from .validators import ConfigError

IMAGES = ("dlami-base-ubuntu-22.04", "dlami-base-ubuntu-24.04", "ubuntu-22.04", "ubuntu-24.04")
UBUNTU = IMAGES[2]
KEY_TYPES = ("ssh-ed25519", "ssh-rsa")
USER = COMMON_FACTS["aws"].ssh_user
MOST_CIDRS = 59
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")


def _machine_type(values: Values) -> Iterator[ConfigError]:
    return not_one_of("machine_type", values["machine_type"], TYPES)


def _region(values: Values) -> Iterator[ConfigError]:
    """Checks only the form. Whether there is such a region is looked up later."""
    region = values["region"]
    if not _REGION.fullmatch(region):
        yield ConfigError(f"region: {region!r} is not a region of aws, as in us-east-1")
    elif region.startswith(("us-gov-", "cn-")):
        why = "is in a separate partition of AWS, which is not supported"
        yield ConfigError(f"region: {region} {why}")


def _network(values: Values) -> Iterator[ConfigError]:
    network = values["network"]
    if network and not network.startswith("vpc-"):
        yield ConfigError(f"network: {network!r} is not a VPC's id, as in vpc-0a1b2c3d")


def _ipv4(values: Values) -> Iterator[ConfigError]:
    """Without an IPv4 network nobody could connect: hosts have only IPv4 addresses."""
    cidrs = values["ssh_cidrs"]
    if not any(ipaddress.ip_network(cidr).version == 4 for cidr in cidrs):
        why = "hosts on AWS have IPv4 addresses only; add your IPv4 address"
        yield ConfigError(f"ssh_cidrs: {', '.join(cidrs)}: {why}", OWN_ADDRESS)


def _too_many(values: Values) -> Iterator[ConfigError]:
    """EC2 allows 60 rules per security group, separately for IPv4 and IPv6; the hosts need one."""
    versions = [ipaddress.ip_network(cidr).version for cidr in values["ssh_cidrs"]]
    for version in (4, 6):
        if versions.count(version) > MOST_CIDRS:
            yield ConfigError(
                f"ssh_cidrs: {versions.count(version)} IPv{version} networks; EC2 takes"
                f" {MOST_CIDRS}: put neighbouring addresses into one network, as in 203.0.113.0/24",
                OWN_ADDRESS,
            )


def _key_type(values: Values) -> Iterator[ConfigError]:
    kind = rules.key_type(values)
    if kind not in KEY_TYPES:
        yield ConfigError(
            f"public_key_file: EC2 accepts {' and '.join(KEY_TYPES)}, and this is {kind}",
            "ssh-keygen -t ed25519 &&",
            set_("public_key_file", "~/.ssh/id_ed25519.pub"),
        )


def _image(values: Values) -> Iterator[ConfigError]:
    machine, image = _machine(values), values["image"]
    if machine and machine.has_nvswitch and image in IMAGES and not image.startswith("dl"):
        needs = f"need NVIDIA's Fabric Manager, which {image} does not have"
        yield ConfigError(f"image: the GPUs of {machine.name} {needs}", rm("image"))
        return
    v100 = machine is not None and machine.gpu == V100
    yield from rules.unsupported_image(values, IMAGES, id_prefix="ami-", v100=v100)


def _user(values: Values) -> Iterator[ConfigError]:
    """cloud-init gives the key to one user of an image, and in ours that is `ubuntu`."""
    user, image = values["ssh_user"], values["image"]
    if user == "root":
        why = "AWS's images refuse logins of root; the hosts use sudo"
        yield ConfigError(f"ssh_user: {why}", rm("ssh_user"))
    elif user != USER and (not image or image in IMAGES):
        why = f"{user!r} cannot log in: the user of {image or 'our images'} is {USER}"
        yield ConfigError(f"ssh_user: {why}", rm("ssh_user"))


def _placement(values: Values) -> Iterator[ConfigError]:
    if values["placement"] and values["spot"]:
        yield ConfigError(
            "placement: not with spot: one machine that AWS cannot start, or takes away, "
            "ends the group; set one of them to false"
        )


RULES = (
    rules.wide_networks,
    rules.unreachable_networks,
    rules.zones_outside_region,
    rules.name_of_no_bucket,
    _machine_type,
    _region,
    _image,
    partial(rules.data_elsewhere, scheme="s3"),
    _network,
    _ipv4,
    _too_many,
    _key_type,
    _user,
    _placement,
)


def defaults(values: Values) -> dict[str, object]:
    """`image` and `placement`: on-demand machines of one cluster are placed close together, also a
    single one, because others may be added. `idle_minutes`: a spot machine that powers itself off
    is terminated, together with results that have no other copy."""
    idle = 0 if values["spot"] and not values["bucket"] else IDLE_MINUTES
    placement = not values["spot"]
    return {"image": default_image(values), "placement": placement, "idle_minutes": idle}


def default_image(values: Values) -> str:
    """The deep learning image; Ubuntu's for machines without GPUs, and for V100, which the deep
    learning image's driver no longer supports."""
    machine = _machine(values)
    return UBUNTU if machine and machine.gpu in (None, V100) else IMAGES[0]


def _machine(values: Values) -> MachineType | None:
    return TYPES.get(values["machine_type"])
