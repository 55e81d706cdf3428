"""The image of the hosts' disks, and what follows from the choice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

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
    """`path` is of a family or of one image, without a host's name."""

    path: str
    secure_boot: bool
    metadata: Mapping[str, str] = field(default_factory=dict)


def image(config: ClusterConfig) -> Image:
    """The image of a config.

    The path of a family, not of the image that it names today: Compute resolves it when it
    makes the disk, and an `up` weeks later compares the same two texts and changes nothing.

    Raises:
        ConfigError: it is no name of ours and no path of an image.
    """
    if config.image not in FAMILIES:
        if not _PATH.fullmatch(config.image):
            raise ConfigError(
                f"image: {config.image!r} is none of {', '.join(FAMILIES)} and no path as in "
                "projects/P/global/images/NAME or projects/P/global/images/family/NAME"
            )
        # Nobody knows whether this image's driver module is signed.
        return Image(config.image, secure_boot=False)
    project, family = FAMILIES[config.image]
    path = f"projects/{project}/global/images/family/{family}"
    if project == DLVM:
        # Its driver is built on the machine, by nobody whose key the firmware knows: Secure
        # Boot would refuse to load the module.
        return Image(path, secure_boot=False, metadata={"install-nvidia-driver": "True"})
    # Ubuntu's own driver modules (linux-modules-nvidia-*) are signed with Canonical's key.
    return Image(path, secure_boot=True)


def check(chosen: Image, config: ClusterConfig, opts: pulumi.InvokeOptions) -> None:
    """Ask Google for the image, and log what it is today.

    Raises:
        ConfigError: there is none, or it does not fit on the disk.
    """
    found = _PATH.fullmatch(chosen.path)
    assert found
    project, family, name = found.groups()
    try:
        if family:
            today = compute.get_image(project=project, family=name, opts=opts)
        else:
            today = compute.get_image(project=project, name=name, opts=opts)
    except Exception as error:  # that is what a failed invoke raises
        raise ConfigError(f"image: {chosen.path} cannot be had: {error}") from None
    if today.disk_size_gb > config.disk_gb:
        raise ConfigError(
            f"disk_gb: {config.disk_gb} is less than the {today.disk_size_gb} GB of {today.name}"
        )
    pulumi.log.info(f"image {today.name}; hosts that exist keep theirs")
