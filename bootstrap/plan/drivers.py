"""The table of drivers: which driver a host's GPUs and system need, and how to install it. Pure.

Names and sizes of Ubuntu's packages are from its archive on 2026-11-21, as apt calculates them on
an empty system. The names in NVIDIA's repository are not verified, because it was unreachable.
Nothing here has run on a GPU.
"""

from __future__ import annotations

import re
from dataclasses import replace

from railhead.documents.lazy import dataclass

from ..errors import UsageError
from ..facts.gpu import TOO_OLD, Card
from ..facts.host import HostFacts

BRANCH = 580  # the last branch that supports Volta; maintained until June 2028
MINIMUM = (525, 60, 13)  # the minimum for CUDA 12
REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos"  # NVIDIA's
KNOWN = ("volta", "turing", "ampere", "ada", "hopper")
SYSTEMS = ("debian-12", "ubuntu-22.04", "ubuntu-24.04")
# Kernels for which Ubuntu has prebuilt, signed modules; and the first kernel of each release:
# later `generic` kernels have other packages.
PREBUILT = ("aws", "gcp", "generic")
FIRST_KERNEL = {"ubuntu-22.04": "5.15.", "ubuntu-24.04": "6.8."}
# Upper bounds: a 520 MB download and 1.02 GB on disk (Ubuntu 24.04 on GCP, proprietary module). A
# host that builds modules also needs a compiler: 149 MB and 599 MB.
MEGABYTES, DISK = 520, 1_020_000_000
BUILT_MEGABYTES, BUILT_DISK = 670, 1_620_000_000


@dataclass(frozen=True)
class DriverRow:
    """How to install one driver on one host.

    `packages` are for apt. With `repository` they come from NVIDIA's repository, which is added
    first; `pin` is a package that keeps apt on the branch and is installed before all others.
    `installer` is the image's own program; then there are no packages. `flavour` is "open",
    "proprietary" or, if the image decides, "either"; `signed` is whether Secure Boot accepts the
    module. `hold` are patterns of dpkg-query: matching installed packages are held. `megabytes`
    is the maximum download and `disk` its bytes on disk; 0 if unknown. Every row includes
    persistence mode, which keeps a GPU initialized between runs.
    """

    branch: int
    flavour: str
    packages: tuple[str, ...]
    why: str
    repository: bool = False
    pin: str | None = None
    installer: str | None = None
    signed: bool = False
    reboot: bool = True
    hold: tuple[str, ...] = ()
    megabytes: int = 0
    disk: int = 0


def choose(facts: HostFacts) -> DriverRow | None:
    """The row that this host needs; None if its driver works or it has no card that can be used.

    Raises:
        UsageError: no row fits the card or the system; the message lists what the rows support.
    """
    return row(facts) if usable(facts) and wrong(facts) else None


def usable(facts: HostFacts) -> tuple[Card, ...]:
    """The cards that are not too old."""
    return tuple(card for card in facts.gpu.cards if card.arch not in TOO_OLD)


def wrong(facts: HostFacts) -> str:
    """Why the current driver does not work for this host's cards; empty if it works."""
    driver = facts.gpu.driver
    if driver is None:
        return facts.gpu.smi.split("\n")[0] or "no driver is loaded"
    if version(driver.version) < MINIMUM:
        return f"driver {driver.version} is older than {'.'.join(map(str, MINIMUM))}"
    if has_volta(facts) and (driver.branch > BRANCH or driver.flavour == "open"):
        return f"driver {driver.version} ({driver.flavour}) does not support V100"
    if facts.gpu.smi:
        return facts.gpu.smi.split("\n")[0]
    return "" if facts.gpus else "nvidia-smi shows no GPU"


def version(text: str) -> tuple[int, ...]:
    """A driver's version as a tuple that can be compared."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def has_volta(facts: HostFacts) -> bool:
    """Whether a card is a Volta, which needs the proprietary module of BRANCH."""
    return any(card.arch == "volta" for card in facts.gpu.cards)


def row(facts: HostFacts) -> DriverRow:
    """The row for this host's cards and system, whatever driver it has now.

    Raises:
        UsageError: no row fits; the message lists what the rows support.
    """
    for card in usable(facts):
        if card.arch not in KNOWN:
            kind = card.arch or "of an unknown kind"
            raise UsageError(
                f"no driver is known for {card} ({kind}): they are known for {', '.join(KNOWN)}"
            )
    if facts.gpu.installer and not has_volta(facts):
        return _of_image(facts.gpu.installer, facts.gpu.nouveau)
    if facts.os not in SYSTEMS or facts.arch != "x86_64":
        raise UsageError(
            f"no driver is known for {facts.os} on {facts.arch}: they are known for"
            f" {', '.join(SYSTEMS)} on x86_64"
        )
    flavour = "proprietary" if has_volta(facts) else "open"
    return (_debian if facts.os.startswith("debian") else _ubuntu)(facts, flavour)


def _of_image(installer: str, nouveau: bool) -> DriverRow:
    """The row of an image's installer, which loads the module itself unless Nouveau uses the
    card."""
    why = "the image has its own installer"
    return DriverRow(BRANCH, "either", (), why, installer=installer, reboot=nouveau)


def _ubuntu(facts: HostFacts, flavour: str) -> DriverRow:
    suffix = f"{BRANCH}-server" + ("-open" if flavour == "open" else "")
    kernel = facts.system.flavour
    utils = f"nvidia-utils-{BRANCH}-server"
    if kernel not in PREBUILT:
        why = f"Ubuntu has no modules for the kernel {facts.system.kernel}: built on the host"
        row = DriverRow(BRANCH, flavour, (f"nvidia-headless-{suffix}", utils), why, hold=_held())
        return replace(row, megabytes=BUILT_MEGABYTES, disk=BUILT_DISK)
    if kernel == "generic" and not facts.system.kernel.startswith(FIRST_KERNEL[facts.os]):
        kernel = "generic-hwe-" + facts.os.removeprefix("ubuntu-")
    modules = f"linux-modules-nvidia-{suffix}-{kernel}"
    packages = (modules, f"nvidia-headless-no-dkms-{suffix}", utils)
    why = f"Ubuntu's own modules for the {kernel} kernel, signed"
    row = DriverRow(BRANCH, flavour, packages, why, signed=True, hold=_held(kernel))
    return replace(row, megabytes=MEGABYTES, disk=DISK)


def _debian(facts: HostFacts, flavour: str) -> DriverRow:
    driver = f"nvidia-open-{BRANCH}" if flavour == "open" else f"cuda-drivers-{BRANCH}"
    kernel = "cloud-amd64" if facts.system.flavour.endswith("cloud-amd64") else "amd64"
    kernels = () if facts.system.headers else (f"linux-image-{kernel}", f"linux-headers-{kernel}")
    return DriverRow(
        BRANCH,
        flavour,
        (*kernels, driver),
        "NVIDIA's repository, built on the host",
        repository=True,
        pin=f"nvidia-driver-pinning-{BRANCH}",
        hold=("cuda-drivers*", *_held(kernel)),
        megabytes=BUILT_MEGABYTES,
        disk=BUILT_DISK,
    )


def _held(kernel: str = "") -> tuple[str, ...]:
    """Patterns to hold: a new kernel has no module, and new libraries do not fit the old module."""
    kernels = (f"linux-{kernel}", f"linux-image-{kernel}", f"linux-headers-{kernel}")
    return ("*nvidia*", *(kernels if kernel else ()))
