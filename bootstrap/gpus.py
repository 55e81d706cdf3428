"""What is true of a host's GPUs: the cards, also without a driver; the driver; the toolkits.

A table of facts like that of `facts`: POSIX sh that needs no root and writes nothing, and a pure
parser for what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bootstrap.system import lines

# Cards that clouds rent out and people train on, by PCI device id of vendor 10de.
CARDS = {
    "1db1": ("Tesla V100-SXM2-16GB", "volta"),
    "1db4": ("Tesla V100-PCIE-16GB", "volta"),
    "1db5": ("Tesla V100-SXM2-32GB", "volta"),
    "1db6": ("Tesla V100-PCIE-32GB", "volta"),
    "1eb8": ("Tesla T4", "turing"),
    "2236": ("NVIDIA A10", "ampere"),
    "2237": ("NVIDIA A10G", "ampere"),
    "20b0": ("NVIDIA A100-SXM4-40GB", "ampere"),
    "20b2": ("NVIDIA A100-SXM4-80GB", "ampere"),
    "20b5": ("NVIDIA A100 80GB PCIe", "ampere"),
    "20f1": ("NVIDIA A100-PCIE-40GB", "ampere"),
    "27b8": ("NVIDIA L4", "ada"),
    "26b9": ("NVIDIA L40S", "ada"),
    "2330": ("NVIDIA H100 80GB HBM3", "hopper"),
    "2331": ("NVIDIA H100 PCIe", "hopper"),
}


@dataclass(frozen=True)
class Card:
    """One card on the PCI bus. `name` and `arch` are None for a card that no table of ours has."""

    bus: str
    device: str
    name: str | None
    arch: str | None

    def __str__(self) -> str:
        return self.name or f"NVIDIA card {self.device}"


@dataclass(frozen=True)
class Driver:
    """The driver that the kernel runs: "580.95.05", 580, and "open" or "proprietary"."""

    version: str
    branch: int
    flavour: str


@dataclass(frozen=True)
class GpuFacts:
    """`smi` is what nvidia-smi said when it failed, empty when it works or is not there.

    `users` are processes that have a GPU open; `installer` is the image's own, for its driver;
    `cuda` maps the version of a toolkit with nvcc to its folder.
    """

    cards: tuple[Card, ...]
    driver: Driver | None
    nouveau: bool
    smi: str
    users: tuple[str, ...]
    installer: str | None
    cuda: Mapping[str, str]


def _cards(out: str) -> tuple[Card, ...]:
    found = []
    for line in lines(out):
        bus, device = line.split()
        name, arch = CARDS.get(device.removeprefix("0x"), (None, None))
        found.append(Card(bus, f"10de:{device.removeprefix('0x')}", name, arch))
    return tuple(found)


def _driver(out: str) -> Driver | None:
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?((\d+)\.\d+(?:\.\d+)?)", out)
    if not match:
        return None
    flavour = "open" if "Open Kernel Module" in out else "proprietary"
    return Driver(match[1], int(match[2]), flavour)


_CARD_SEARCH = """for d in /sys/bus/pci/devices/*; do
  read -r v <$d/vendor && read -r c <$d/class && read -r i <$d/device || continue
  case $v$c in 0x10de0x03*) echo "${d##*/} $i";; esac
done"""
_USER_SEARCH = """[ -e /dev/nvidiactl ] || exit 0
s=; [ "$(id -u)" = 0 ] || s="sudo -n"
{ $s ls -l /proc/[0-9]*/fd || ls -l /proc/[0-9]*/fd; } | while read -r l; do
  case $l in
  /proc/*) p=${l%/fd:};;
  *"-> /dev/nvidia"*) read -r c <$p/comm && echo "${p#/proc/} $c";;
  esac
done"""
_TOOLKIT_SEARCH = """for n in $(command -v nvcc) /usr/local/cuda*/bin/nvcc; do
  v=$("$n" --version | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p')
  [ "$v" ] && echo "$v ${n%/bin/*}"
done"""
_SMI = """command -v nvidia-smi >/dev/null || exit 0
o=$(nvidia-smi -L 2>&1) || echo "${o:-nvidia-smi failed without a word}\""""

FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cards": (_CARD_SEARCH, _cards),
    "driver": ("cat /proc/driver/nvidia/version", _driver),
    "nouveau": ("[ -d /sys/module/nouveau ] && echo yes", lambda out: "yes" in out),
    "smi": (_SMI, lambda out: out.strip()),
    "users": (_USER_SEARCH, lambda out: tuple(dict.fromkeys(lines(out)))),
    "installer": (
        "ls /opt/deeplearning/install-driver.sh",
        lambda out: out.strip() or None,
    ),
    "cuda": (_TOOLKIT_SEARCH, lambda out: dict(line.split(None, 1) for line in lines(out))),
}
