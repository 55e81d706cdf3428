"""Facts of a host's system: kernel, cloud, first boot, apt, Secure Boot.

A table of facts as in `host`: POSIX sh that needs no root and writes nothing, and a pure
parser for what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from railhead.documents.lazy import dataclass

from ..console.text import lines
from ..host.buckets import certificates
from ..inventory.clouds import CLOUDS


@dataclass(frozen=True)
class SystemFacts:
    """`cloud_init` is None if it is not installed; `secure_boot` is None if unknown.

    `apt_busy` are the names of running package tools, `disks` the free bytes by mount point of
    the file systems of the home directory, /, /usr, /var and /boot, `home_on` the mount point of
    the home directory. `trusts`: the system has a list of certificate authorities.
    """

    kernel: str
    headers: bool
    cloud: str | None
    cloud_init: str | None
    apt_busy: tuple[str, ...]
    dpkg_broken: bool
    held: frozenset[str]
    packages: Mapping[str, str]
    secure_boot: bool | None
    disks: Mapping[str, int]
    home_on: str
    trusts: bool

    @property
    def flavour(self) -> str:
        """The kernel flavour, as in the names of Ubuntu's and Debian's packages: aws, generic."""
        return re.sub(r"^[\d.]+(?:-\d+)*[-+]?(?:deb\d+(?:u\d+)?-)?", "", self.kernel)


def _cloud(out: str) -> str | None:
    vendors = {name: kind.vendor for name, kind in CLOUDS.items() if kind.vendor}
    return next((name for name, vendor in vendors.items() if vendor in out.lower()), None)


def _cloud_init(out: str) -> str | None:
    statuses = re.findall(r"^(?:extended_)?status: *(.+)$", out, re.MULTILINE)
    status = statuses[-1].strip() if statuses else ""
    if not status:
        return "not started" if out.strip() else None
    if "running" in status:
        return "running"
    if status in ("not run", "not started"):
        return "not started"
    return next(
        (word for word in ("error", "degraded", "disabled", "done") if word in status), status
    )


def _apt_busy(out: str) -> tuple[str, ...]:
    # Ubuntu always runs unattended-upgrade-shutdown, which holds no lock before the shutdown.
    busy = [line.split()[0] for line in lines(out) if "unattended-upgrade-shutdown" not in line]
    return tuple(sorted(set(busy)))


def _installed(out: str) -> dict[str, str]:
    fields = [line.split() for line in lines(out)]
    return {w[1].partition(":")[0]: w[2] for w in fields if len(w) == 3 and w[0] == "installed"}


def _secure_boot(out: str) -> bool | None:
    status = out.strip().splitlines()[0] if out.strip() else ""
    if "enabled" in status or status == "1":
        return True
    off = ("disabled", "doesn't support", "no EFI")
    return False if status == "0" or any(word in status for word in off) else None


def last(out: str) -> str:
    """The line of one disk, after the header."""
    return out.strip().rpartition("\n")[2]


def _disks(out: str) -> dict[str, int]:
    fields = [line.split() for line in lines(out)]
    return {w[5]: int(w[3]) * 1024 for w in fields if len(w) == 6 and w[3].isdigit()}


_APT = "apt|apt-get|aptitude|dpkg|unattended-upgr|apt.systemd.dai|packagekitd"
_APT_SEARCH = f"""for f in $(grep -lxE '{_APT}' /proc/[0-9]*/comm); do
  read -r c <$f && echo "$c $(tr '\\0' ' ' <${{f%comm}}cmdline)"
done"""
# Only with a card: dpkg-query reads the whole database of packages each time.
_WITH_CARD = """for v in /sys/bus/pci/devices/*/vendor; do
  read -r v <$v && [ "$v" = 0x10de ] && break; v=
done; [ "$v" ] || exit 0
"""
# dpkg --audit takes 13 ms of CPU, this 2 ms; `dpkg --configure` cannot repair what only --audit
# finds.
_DPKG_BROKEN = """s='[a-z]+ reinstreq|.* (half-installed|half-configured|unpacked|triggers-[a-z]+)'
grep -qE "^Status: ($s)" /var/lib/dpkg/status && dpkg --audit
for f in /var/lib/dpkg/updates/*; do [ -e "$f" ] && echo "$f"; done"""
_INSTALLED = (
    "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' '*nvidia*' '*openmpi*' "
    "'linux-image*' 'linux-headers*' 'linux-aws*' 'linux-gcp*' 'linux-generic*' 'cuda*'"
)
_SECURE_BOOT = """if [ -d /sys/firmware/efi ]; then
  mokutil --sb-state || tail -c 1 /sys/firmware/efi/efivars/SecureBoot-* | tr '\\000\\001' 01
elif [ -d /sys/class ]; then echo no EFI; fi"""
READ_DISKS = 'railhead_df=$([ -d "$HOME" ] && df -Pk / /usr /var /boot "$HOME")'
DISKS = f"""[ "${{railhead_df+read}}" ] || {READ_DISKS}
printf '%s\\n' "$railhead_df\""""  # the last line is the home directory's
_RELEASE = "read -r v </proc/sys/kernel/osrelease"

FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "kernel": (f'{_RELEASE} && echo "$v" || uname -r', str.strip),
    "headers": (
        f"{_RELEASE} || v=$(uname -r)\n[ -e /lib/modules/$v/build/Makefile ] && echo yes",
        lambda out: "yes" in out,
    ),
    "cloud": (
        "for f in sys_vendor product_name bios_version; do\n"
        '  read -r v </sys/class/dmi/id/$f && echo "$v"; done',
        _cloud,
    ),
    "cloud_init": ("command -v cloud-init && cloud-init status --long", _cloud_init),
    "apt_busy": (_APT_SEARCH, _apt_busy),
    "dpkg_broken": (_DPKG_BROKEN, lambda out: bool(out.strip())),
    "held": (
        f"{_WITH_CARD}dpkg-query -W -f '${{db:Status-Want}} ${{Package}}\\n' | grep '^hold '",
        lambda out: frozenset(line.split()[1] for line in lines(out)),
    ),
    "packages": (_WITH_CARD + _INSTALLED, _installed),
    "secure_boot": (_SECURE_BOOT, _secure_boot),
    "disks": (DISKS, _disks),
    "home_on": (DISKS, lambda out: "".join(last(out).split(None, 5)[5:]).strip()),
    "trusts": (
        f"for f in {' '.join(certificates.STORES)}; do [ -s $f ] && echo yes; done",
        lambda out: "yes" in out,
    ),
}
