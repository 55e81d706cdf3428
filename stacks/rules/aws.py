"""AWS: which config values contradict each other, and the defaults that depend on others. Pure."""

from __future__ import annotations

import ipaddress
import re

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.machine_types import V100

from ..machine_types.aws import TYPES
from ..machine_types.types import MachineType
from ..timer.deadline import IDLE_MINUTES
from . import rules
from .rules import OWN_ADDRESS, Values, not_one_of

IMAGES = ("dlami-base-ubuntu-22.04", "dlami-base-ubuntu-24.04", "ubuntu-22.04", "ubuntu-24.04")
UBUNTU = IMAGES[2]
KEY_TYPES = ("ssh-ed25519", "ssh-rsa")
USER = COMMON_FACTS["aws"].ssh_user
MOST_CIDRS = 59
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")


def _machine_type(values: Values) -> list[str]:
    return not_one_of("machine_type", values["machine_type"], TYPES)


def _region(values: Values) -> list[str]:
    """The form alone. Whether there is such a region is looked up later."""
    region = values["region"]
    if not _REGION.fullmatch(region):
        return [f"region: {region!r} is not a region of aws, as in us-east-1"]
    if region.startswith(("us-gov-", "cn-")):
        return [f"region: {region} is in a separate partition of AWS, which is not supported"]
    return []


def _network(values: Values) -> list[str]:
    if not values["network"] or values["network"].startswith("vpc-"):
        return []
    return [f"network: {values['network']!r} is not a VPC's id, as in vpc-0a1b2c3d"]


def _ipv4(values: Values) -> list[str]:
    """Nobody could connect: hosts have only IPv4 addresses."""
    cidrs = values["ssh_cidrs"]
    if any(ipaddress.ip_network(cidr).version == 4 for cidr in cidrs):
        return []
    return [
        f"ssh_cidrs: {', '.join(cidrs)}: hosts on AWS have IPv4 addresses only; add your IPv4 "
        f"address\n  next: {OWN_ADDRESS}"
    ]


def _too_many(values: Values) -> list[str]:
    """EC2 takes 60 rules per security group, separately for IPv4 and IPv6; one is for the hosts."""
    versions = [ipaddress.ip_network(cidr).version for cidr in values["ssh_cidrs"]]
    return [
        f"ssh_cidrs: {versions.count(version)} IPv{version} networks; EC2 takes {MOST_CIDRS}: put "
        f"neighbouring addresses into one network, as in 203.0.113.0/24\n  next: {OWN_ADDRESS}"
        for version in (4, 6)
        if versions.count(version) > MOST_CIDRS
    ]


def _key_type(values: Values) -> list[str]:
    found = rules.key_type(values)
    if found in KEY_TYPES:
        return []
    return [
        f"public_key_file: EC2 accepts {' and '.join(KEY_TYPES)}, and this is {found}\n"
        "  next: ssh-keygen -t ed25519 && pulumi config set public_key_file ~/.ssh/id_ed25519.pub"
    ]


def _image(values: Values) -> list[str]:
    machine, image = _machine(values), values["image"]
    if machine and machine.has_nvswitch and image in IMAGES and not image.startswith("dl"):
        return [
            f"image: the GPUs of {machine.name} need NVIDIA's Fabric Manager, which {image} does "
            "not have\n  next: pulumi config rm image"
        ]
    v100 = machine is not None and machine.gpu == V100
    return rules.unsupported_image(values, IMAGES, id_prefix="ami-", v100=v100)


def _user(values: Values) -> list[str]:
    """cloud-init gives the key to one user of an image, and in ours that is `ubuntu`."""
    user, image = values["ssh_user"], values["image"]
    if user == "root":
        return [
            "ssh_user: AWS's images refuse logins of root; the hosts use sudo\n"
            "  next: pulumi config rm ssh_user"
        ]
    if user == USER or (image and image not in IMAGES):
        return []
    return [
        f"ssh_user: {user!r} cannot log in: the user of {image or 'our images'} is {USER}\n"
        "  next: pulumi config rm ssh_user"
    ]


def _placement(values: Values) -> list[str]:
    if not (values["placement"] and values["spot"]):
        return []
    return [
        "placement: not with spot: one machine that AWS cannot start, or takes away, "
        "ends the group; set one of them to false"
    ]


def _data(values: Values) -> list[str]:
    return rules.data_elsewhere(values, "s3")


RULES = (
    rules.wide_networks,
    rules.unreachable_networks,
    rules.zones_outside_region,
    rules.name_of_no_bucket,
    _machine_type,
    _region,
    _image,
    _data,
    _network,
    _ipv4,
    _too_many,
    _key_type,
    _user,
    _placement,
)


def defaults(values: Values) -> dict[str, object]:
    """`image` and `placement`: on-demand machines of one cluster are placed close together, also
    a single one, to which others may come. `idle_minutes`: a spot machine that powers itself off
    is terminated, with results that are nowhere else."""
    idle = 0 if values["spot"] and not values["bucket"] else IDLE_MINUTES
    placement = not values["spot"]
    return {"image": default_image(values), "placement": placement, "idle_minutes": idle}


def default_image(values: Values) -> str:
    """The deep learning image; Ubuntu's without GPUs, and for V100, which the driver of the deep
    learning image no longer supports."""
    machine = _machine(values)
    return UBUNTU if machine and machine.gpu in (None, V100) else IMAGES[0]


def _machine(values: Values) -> MachineType | None:
    return TYPES.get(values["machine_type"])
