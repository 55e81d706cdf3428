"""The image of the hosts' disks, and the settings that depend on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from ..config.settings import ClusterConfig
from ..config.validators import ConfigError

DLVM, UBUNTU = "deeplearning-platform-release", "ubuntu-os-cloud"
FAMILIES = {
    "dlvm-cu129-ubuntu-2204": (DLVM, "common-cu129-ubuntu-2204-nvidia-580"),
    "dlvm-cu129-ubuntu-2404": (DLVM, "common-cu129-ubuntu-2404-nvidia-580"),
    "ubuntu-2204": (UBUNTU, "ubuntu-2204-lts"),
    "ubuntu-2404": (UBUNTU, "ubuntu-2404-lts-amd64"),
}
_PATH = re.compile(r"projects/([^/]+)/global/images/(family/)?([^/]+)")


@dataclass(frozen=True)
class Image:
    """`path` names an image family or one image, without the API's address."""

    path: str
    secure_boot: bool
    metadata: Mapping[str, str] = field(default_factory=dict)


def choose_image(config: ClusterConfig) -> Image:
    """The image of a config.

    The path of a family, not of its newest image: Compute resolves it when it makes the disk,
    and an `up` weeks later compares equal paths and changes nothing.
    """
    if config.image not in FAMILIES:
        # It is unknown whether this image's driver module is signed.
        return Image(config.image, secure_boot=False)
    project, family = FAMILIES[config.image]
    path = f"projects/{project}/global/images/family/{family}"
    if project == DLVM:
        # Its driver is built on the machine and not signed with a key that the firmware trusts:
        # Secure Boot would refuse the module.
        return Image(path, secure_boot=False, metadata={"install-nvidia-driver": "True"})
    # Ubuntu's own driver modules (linux-modules-nvidia-*) are signed with Canonical's key.
    return Image(path, secure_boot=True)


def check(chosen: Image, config: ClusterConfig, opts: pulumi.InvokeOptions) -> None:
    """Look the image up, and log the newest of its family.

    Raises:
        ConfigError: it does not exist, or does not fit on the disk.
    """
    found = _PATH.fullmatch(chosen.path)
    assert found
    project, family, name = found.groups()
    try:
        if family:
            newest = compute.get_image(project=project, family=name, opts=opts)
        else:
            newest = compute.get_image(project=project, name=name, opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"image: {chosen.path} cannot be read: {error}\n  next: pulumi config rm image"
        ) from None
    size = newest.disk_size_gb
    if size > config.disk_gb:
        raise ConfigError(
            f"disk_gb: {config.disk_gb} is less than the {size} GB of {newest.name}\n"
            f"  next: pulumi config set disk_gb {size}"
        )
    pulumi.log.info(f"image {newest.name}; hosts that exist keep theirs")
