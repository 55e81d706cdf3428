"""The image of the hosts' disks, and the settings that depend on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from ..config.images import refusal
from ..config.settings import ClusterConfig
from ..next_command import Part, rm, set_
from ..rules.validators import ConfigError
from .lookups.rest import Google, LookupFailed

DLVM, UBUNTU = "deeplearning-platform-release", "ubuntu-os-cloud"
FAMILIES = {
    "dlvm-cu129-ubuntu-2204": (DLVM, "common-cu129-ubuntu-2204-nvidia-580"),
    "dlvm-cu129-ubuntu-2404": (DLVM, "common-cu129-ubuntu-2404-nvidia-580"),
    "ubuntu-2204": (UBUNTU, "ubuntu-2204-lts"),
    "ubuntu-2404": (UBUNTU, "ubuntu-2404-lts-amd64"),
}
SHOWN = 4  # families in a message
_PATH = re.compile(r"projects/([^/]+)/global/images/(family/)?([^/]+)")


@dataclass(frozen=True)
class Image:
    """`path` names an image family or one image, without the API's address."""

    path: str
    secure_boot: bool
    metadata: Mapping[str, str] = field(default_factory=dict)


def choose_image(config: ClusterConfig) -> Image:
    """The image of a config. It has the path of a family, not of its newest image: Compute resolves
    it when it creates the disk, and an `up` weeks later compares equal paths and changes
    nothing."""
    path = config.image
    if config.image in FAMILIES:
        project, family = FAMILIES[config.image]
        path = f"projects/{project}/global/images/family/{family}"
    if path.startswith(f"projects/{DLVM}/"):
        # Its driver is built on the machine and not signed with a key that the firmware trusts:
        # Secure Boot would refuse the module.
        return Image(path, secure_boot=False, metadata={"install-nvidia-driver": "True"})
    # Ubuntu's own driver modules (linux-modules-nvidia-*) are signed with Canonical's key. It is
    # unknown whether those of another image are.
    return Image(path, secure_boot=config.image in FAMILIES)


def check(
    chosen: Image, config: ClusterConfig, google: Google | None, opts: pulumi.InvokeOptions
) -> None:
    """Look the image up, and log the newest of its family. ConfigError: it does not exist, does not
    fit on the disk, or no launcher works on it."""
    match = _PATH.fullmatch(chosen.path)
    assert match
    project, family, name = match.groups()
    try:
        if family:
            newest = compute.get_image(project=project, family=name, opts=opts)
        else:
            newest = compute.get_image(project=project, name=name, opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        following = _others(project, name, google) if family else (rm("image"),)
        raise ConfigError(f"image: {chosen.path} cannot be read: {error}", *following) from None
    if why := refusal(newest.name, config.machine.gpu if config.machine else None):
        raise ConfigError(f"image: {why}", rm("image"))
    size = newest.disk_size_gb
    if size > config.disk_gb:
        raise ConfigError(
            f"disk_gb: {config.disk_gb} is less than the {size} GB of {newest.name}",
            set_("disk_gb", size),
        )
    pulumi.log.info(f"image {newest.name}; hosts that exist keep theirs")


def _others(project: str, family: str, google: Google | None) -> tuple[Part, ...]:
    """The command for a family that Google has retired: it sets one that exists."""
    ask = f"gcloud compute images list --project {project} --format 'value(family)'"
    try:
        query = {"fields": "items(family,deprecated),nextPageToken", "maxResults": "500"}
        path = f"projects/{project}/global/images"
        pages = [*google.every("compute", path, **query)] if google else []
    except LookupFailed:
        pages = []
    images = [listed for page in pages for listed in page.get("items", ())]
    named = [listed.get("family", "") for listed in images if "deprecated" not in listed]
    if not (others := alike(family, named)):
        return ask, "  # then:", set_("image", f"projects/{project}/global/images/family/...")
    paths = [f"projects/{project}/global/images/family/{other}" for other in others[:SHOWN]]
    also = [f"  # or {', '.join(others[1:SHOWN])}"] if others[1:] else []
    return set_("image", paths[0]), *also


def alike(family: str, families: Iterable[str]) -> list[str]:
    """Families that can replace a retired one: of the same publisher's kind, the newest first; for
    images with CUDA, only those with CUDA 12, which works with all our GPUs."""
    kind = family.partition("-")[0]
    pattern = r"common-cu(12\d)-ubuntu-(\d{4})-nvidia-(\d+)"
    if "-cu" not in family:
        pattern = rf"{re.escape(kind)}-(\d{{4}})-lts(?:-amd64)?"
    known = {name: match for name in families if (match := re.fullmatch(pattern, name))}
    return sorted(known, key=lambda name: [*map(int, known[name].groups())], reverse=True)
