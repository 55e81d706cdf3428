"""What the name of a publisher's image reveals about its system and its driver. Pure.

An image id may refer to any image. If a publisher's image, by its name, works with no launcher,
`pulumi preview` reports that before a machine is paid for; names of users' own images are not
judged.
"""

from __future__ import annotations

import re

from railhead.documents.machine_types import V100

V100S = (V100, "nvidia-tesla-v100")
# The systems that bootstrap has a driver and a Python for; further ones with a Python of a runtime.
WITH_GPUS = ("debian-12", "ubuntu-22.04", "ubuntu-24.04")
WITHOUT_GPUS = (*WITH_GPUS, "debian-13", "ubuntu-24.10", "ubuntu-25.04", "ubuntu-25.10")
_NO_APT = re.compile(
    r"(amzn2?|al20\d\d|rhel|rocky|centos|suse|sles|ol\d[.\d]*|fedora|flatcar|cos|windows|alma\w+)"
    r"[-_/ ]|deep learning.*\(amazon linux"
)
_APT = re.compile(
    r"(?:deep learning.*\(|ubuntu/images.*?)?(debian|ubuntu)[-/ a-z]*(\d\d)[.-]?(\d\d)?\b"
)
_DEEP_LEARNING = re.compile(r"(?:common|c0-deeplearning)-.*?(debian|ubuntu)-(\d\d)(\d\d)?\b")
# NVIDIA's open module, or one that the image builds itself.
_OTHER_DRIVER = re.compile(r"deep learning.* oss nvidia driver|common-cu\d+-.*nvidia-\d+")


def refusal(image: str, gpu: str | None) -> str | None:
    """Why no launcher works on hosts of an image with this GPU, or with none; None if one does, or
    if the image's name does not show it."""
    name = image.lower()
    if gpu in V100S and _OTHER_DRIVER.match(name):
        return f"the driver of {image} does not support V100"
    if _NO_APT.match(name):
        return f"{image} has no apt, which installs what every launcher needs"
    system, fit = _system(name), WITH_GPUS if gpu else WITHOUT_GPUS
    if system and system not in fit:
        lacks = f"driver for {gpu}" if system in WITHOUT_GPUS else "Python of a runtime"
        return f"{image}: {system} has no {lacks}; one of {', '.join(fit)}"
    return None


def _system(name: str) -> str | None:
    """The system of a publisher's image: debian-12, ubuntu-22.04; None if it is unknown."""
    if not (match := _DEEP_LEARNING.match(name) or _APT.match(name)):
        return None
    system, release, month = match.groups()
    return f"{system}-{release}" + (f".{month}" if month and system == "ubuntu" else "")
