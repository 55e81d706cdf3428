"""Google Cloud: which config values contradict each other, and defaults. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import partial

from railhead.documents.clouds import COMMON_FACTS

from ..machine_types.gcp import GPU_LIMITS, N1, NAMES, WITH_GPUS, WITHOUT_GPUS
from ..next_command import rm, set_
from ..timer.deadline import IDLE_MINUTES
from . import rules
from .rules import OWN_ADDRESS, Values, not_one_of
from .validators import ConfigError

IMAGES = ("dlvm-cu129-ubuntu-2204", "dlvm-cu129-ubuntu-2404", "ubuntu-2204", "ubuntu-2404")
UBUNTU = IMAGES[2]
USER = COMMON_FACTS["gcp"].ssh_user
OS_LOGIN_USER = (
    "\"$(gcloud compute os-login describe-profile --format='value(posixAccounts[0].username)')\""
)
# Accounts of the system in Ubuntu's images, which cannot log in.
SYSTEM_USERS = (
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy",
    "www-data", "backup", "list", "irc", "nobody", "sshd", "syslog", "messagebus", "landscape",
)  # fmt: skip
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_IMAGE_PATH = re.compile(r"projects/[^/]+/global/images/(family/)?[^/]+")


def _machine_type(values: Values) -> Iterator[ConfigError]:
    return not_one_of("machine_type", values["machine_type"], NAMES)


def _gpu_type(values: Values) -> Iterator[ConfigError]:
    """The types that are attached to n1 machines; `_gpus` refuses all with other machines."""
    gpu, machine = values["gpu_type"], values["machine_type"]
    if not gpu or machine not in N1:
        return
    machines = [name for name, (_, other, *_) in WITH_GPUS.items() if other == gpu]
    if not machines:
        yield from not_one_of("gpu_type", gpu, GPU_LIMITS)
        return
    why = f"{gpu} is not attached to n1 machines; it is part of {', '.join(machines)}"
    yield ConfigError(f"gpu_type: {why}", set_("machine_type", machines[0]), "&&", rm("gpu_type"))


def _region(values: Values) -> Iterator[ConfigError]:
    """Checks only the form. Whether there is such a region is looked up later."""
    region = values["region"]
    if not _REGION.fullmatch(region):
        yield ConfigError(f"region: {region!r} is not a region of gcp, as in us-central1")


def _ipv6(values: Values) -> Iterator[ConfigError]:
    for cidr in values["ssh_cidrs"]:
        if ipaddress.ip_network(cidr).version == 6:
            why = "is IPv6; hosts on gcp have IPv4 addresses only"
            yield ConfigError(f"ssh_cidrs: {cidr} {why}", OWN_ADDRESS)


def _image(values: Values) -> Iterator[ConfigError]:
    image = values["image"]
    if image and image.startswith("projects/") and not _IMAGE_PATH.fullmatch(image):
        yield ConfigError(
            f"image: {image!r} is not a path such as projects/P/global/images/NAME or "
            "projects/P/global/images/family/NAME"
        )
        return
    v100 = values["gpu_type"] == "nvidia-tesla-v100"
    yield from rules.unsupported_image(values, IMAGES, id_prefix="projects/", v100=v100)


def _gpus(values: Values) -> Iterator[ConfigError]:
    """Only n1 machines have attached GPUs, and the number of vCPUs limits their number."""
    gpu, count, machine = values["gpu_type"], values["gpu_count"], values["machine_type"]
    if machine not in N1:
        has = "no GPUs" if machine in WITHOUT_GPUS else "its own"
        for key in ("gpu_type", "gpu_count"):
            if values[key] and machine in NAMES:
                yield ConfigError(f"{key}: only for n1 machines; {machine} has {has}", rm(key))
        return
    gpu, count = gpu or "nvidia-tesla-t4", count or 1
    limits = GPU_LIMITS.get(gpu, {})
    if limits and count not in limits:
        choices = ", ".join(map(str, limits))
        yield ConfigError(f"gpu_count: {count} {gpu}: an n1 machine takes {choices}")
    elif limits and N1[machine] > limits[count]:
        most = f"the {limits[count]} vCPUs that go with {count} {gpu}"
        yield ConfigError(f"machine_type: {machine} has more than {most}")


def _contact(values: Values) -> Iterator[ConfigError]:
    if values["quotas"] == "request" and not values["contact_email"]:
        yield ConfigError("contact_email: not set, and Google requires one for a quota request")


def _user(values: Values) -> Iterator[ConfigError]:
    user = values["ssh_user"]
    if user in SYSTEM_USERS:
        why = f"{user!r} cannot log in to Google's images; the hosts use sudo"
        yield ConfigError(f"ssh_user: {why}", rm("ssh_user"))
    elif values["oslogin"] and user == USER:
        why = f"OS Login gives every account its own user name, and {user!r} is none"
        yield ConfigError(f"ssh_user: {why}", set_("ssh_user", OS_LOGIN_USER))


RULES = (
    rules.wide_networks,
    rules.unreachable_networks,
    rules.zones_outside_region,
    rules.name_of_no_bucket,
    rules.google_in_the_bucket,
    _machine_type,
    _gpu_type,
    _region,
    _ipv6,
    _image,
    _gpus,
    _contact,
    _user,
    partial(rules.data_elsewhere, scheme="gs"),
)


def defaults(values: Values) -> dict[str, object]:
    """`image`, `idle_minutes`, and the GPUs of n1 machines."""
    gpus = {"gpu_type": "nvidia-tesla-t4", "gpu_count": 1}
    common = {"image": default_image(values), "idle_minutes": IDLE_MINUTES}
    return {**common, **(gpus if values["machine_type"] in N1 else {})}


def default_image(values: Values) -> str:
    """The deep learning image; Ubuntu's for machines without GPUs, and for V100, which the deep
    learning image's driver no longer supports."""
    plain = values["machine_type"] in WITHOUT_GPUS or values["gpu_type"] == "nvidia-tesla-v100"
    return UBUNTU if plain else IMAGES[0]
