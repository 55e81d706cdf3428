"""Facts of a host's GPUs: the cards (even without a driver), the driver, the CUDA toolkits.

A table of facts as in `host`: POSIX sh that needs no root and writes nothing, and a pure
parser for what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from railhead.documents.lazy import dataclass

from ..console.text import lines

# Training cards that clouds offer, by PCI device id of the vendor NVIDIA (10de).
CARDS = {
    0x1DB1: "Tesla V100-SXM2-16GB",
    0x1DB4: "Tesla V100-PCIE-16GB",
    0x1DB5: "Tesla V100-SXM2-32GB",
    0x1DB6: "Tesla V100-PCIE-32GB",
    0x1EB8: "Tesla T4",
    0x2236: "NVIDIA A10",
    0x2237: "NVIDIA A10G",
    0x20B0: "NVIDIA A100-SXM4-40GB",
    0x20B2: "NVIDIA A100-SXM4-80GB",
    0x20B5: "NVIDIA A100 80GB PCIe",
    0x20F1: "NVIDIA A100-PCIE-40GB",
    0x27B8: "NVIDIA L4",
    0x26B9: "NVIDIA L40S",
    0x2330: "NVIDIA H100 80GB HBM3",
    0x2331: "NVIDIA H100 PCIe",
    0x2335: "NVIDIA H200",
}
# Device id ranges of NVIDIA's chips, from pci.ids of April 2023. The first match counts.
ARCHES = (
    ("pascal", 0x15F0, 0x15FF),
    ("maxwell", 0x1340, 0x17FF),
    ("pascal", 0x1B00, 0x1D7F),
    ("volta", 0x1D80, 0x1DFF),
    ("turing", 0x1E00, 0x1FFF),
    ("ampere", 0x2080, 0x20FF),
    ("turing", 0x2180, 0x21FF),
    ("ampere", 0x2200, 0x22FF),
    ("hopper", 0x2300, 0x23FF),
    ("ampere", 0x2400, 0x25FF),
    ("ada", 0x2600, 0x28FF),
)
TOO_OLD = ("maxwell", "pascal")  # our drivers and TensorFlow do not support these


@dataclass(frozen=True)
class Card:
    """One card on the PCI bus: device "10de:1eb8", name "Tesla T4", arch "turing".

    `name` and `arch` are None if our tables do not have the card.
    """

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
    """`smi` is the output of a failed nvidia-smi, empty if it works or does not exist.

    `users` are processes that have a GPU open; `installer` is the driver installer of the image;
    `cuda` maps the version of a toolkit with nvcc to its folder.
    """

    cards: tuple[Card, ...]
    driver: Driver | None
    nouveau: bool
    smi: str
    users: tuple[str, ...]
    installer: str | None
    cuda: Mapping[str, str]

    @property
    def toolkit(self) -> str:
        """The folder of a CUDA 12 toolkit, which can compile a wheel; empty if there is none."""
        return next((path for v, path in self.cuda.items() if v.startswith("12.")), "")


def _cards(out: str) -> tuple[Card, ...]:
    cards = []
    for line in lines(out):
        bus, device = line.split()
        number = int(device, 16)
        arch = next((name for name, first, last in ARCHES if first <= number <= last), None)
        cards.append(Card(bus, f"10de:{number:04x}", CARDS.get(number), arch))
    return tuple(cards)


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
  *" /dev/nvidia"*) read -r c <$p/comm && echo "${p#/proc/} $c";;
  esac
done"""
# The folder with the version in its name comes last and counts: a link may change later.
_TOOLKIT_SEARCH = """c=/usr/local/cuda
for n in $(command -v nvcc) $c/bin/nvcc $c-*/bin/nvcc; do
  [ -x "$n" ] || continue
  v=$("$n" --version | sed -n 's/.*release \\([0-9.]*\\).*/\\1/p')
  [ "$v" ] && echo "$v ${n%/bin/*}"
done"""
# nvidia-smi is started once for all facts. On a broken card it may hang, and no signal may end it.
# Only `cat` waits for it, so the other facts arrive in time (bounded_channel.py).
BEGIN = """{ [ "${railhead_smi+read}" ] || railhead_smi=$(
command -v nvidia-smi >/dev/null || exit 0
has=$(command -v timeout)
within() { s=$1; shift; if [ "$has" ]; then timeout "$s" "$@"; else "$@"; fi; }
{ {
  o=$(within 35 nvidia-smi --query-gpu=name --format=csv,noheader); r=$?
  [ $r = 0 ] || [ $r = 124 ] || o=$(within 5 nvidia-smi -L 2>&1)
  printf '%s\\n' "$o" "@exit $r"
} & } | within 45 cat); } 2>/dev/null </dev/null"""
NAMES = f"""{BEGIN}
case $railhead_smi in *'@exit 0') echo "${{railhead_smi%@exit 0}}";; esac"""
_SMI = f"""command -v nvidia-smi >/dev/null || exit 0
{BEGIN}
case $railhead_smi in *'@exit 0') exit 0;; esac
o=$(echo "${{railhead_smi%@exit *}}"); echo "${{o:-nvidia-smi prints nothing, or not in time}}\""""

FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cards": (_CARD_SEARCH, _cards),
    "driver": ("[ -e /proc/driver/nvidia/version ] && cat /proc/driver/nvidia/version", _driver),
    "nouveau": ("[ -d /sys/module/nouveau ] && echo yes", lambda out: "yes" in out),
    "smi": (_SMI, str.strip),
    "users": (_USER_SEARCH, lambda out: tuple(dict.fromkeys(lines(out)))),
    "installer": (
        "[ -e /opt/deeplearning/install-driver.sh ] && echo /opt/deeplearning/install-driver.sh",
        lambda out: out.strip() or None,
    ),
    "cuda": (_TOOLKIT_SEARCH, lambda out: dict(line.split(None, 1) for line in lines(out))),
}
