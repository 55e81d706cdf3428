"""System changes: what root must change on a host before the runtime is installed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatch

from railhead.documents.lazy import dataclass

from ..errors import UsageError
from ..facts.host import HostFacts
from . import drivers, runtimes
from .cluster import SurveyedCluster
from .drivers import DriverRow
from .steps import MINUTES, Step

# Maximum download (MB) and disk use (bytes), as apt calculates them on an empty Debian 12.
PARTS = (30, 110_000_000)
BUILD_PARTS = (149, 600_000_000)


@dataclass(frozen=True)
class Changes:
    """The system changes of one host, in order.

    `reasons` has the reason of each step by its name: "cloud-init", "mend", "system", "driver",
    "reboot". With `hold` and no `driver`, packages that are already installed are held.
    """

    wait_cloud_init: bool = False
    mend_dpkg: bool = False
    packages: tuple[str, ...] = ()
    driver: DriverRow | None = None
    hold: tuple[str, ...] = ()
    reboot: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order."""
        steps = {
            "cloud-init": self.wait_cloud_init,
            "mend": self.mend_dpkg,
            "system": bool(self.packages),
            "driver": self.driver is not None or bool(self.hold),
            "reboot": self.reboot,
        }
        return tuple(name for name, is_needed in steps.items() if is_needed)

    @property
    def as_root(self) -> tuple[str, ...]:
        """The names of the steps that need root."""
        return tuple(name for name in self.names if name != "cloud-init")

    @property
    def fetches(self) -> dict[str, int]:
        """The MB that each step downloads, by its name."""
        sizes = {"system": self._parts[0]} if self.packages else {}
        return sizes | ({"driver": self.driver.megabytes} if self.driver else {})

    @property
    def disk(self) -> dict[str, int]:
        """The bytes that each step needs on disk, by its name: downloaded and unpacked files."""
        unpacked = {"system": self._parts[1], "driver": self.driver.disk if self.driver else 0}
        return {name: mb * 1_000_000 + unpacked[name] for name, mb in self.fetches.items()}

    @property
    def _parts(self) -> tuple[int, int]:
        return BUILD_PARTS if "g++" in self.packages else PARTS

    def steps(self, host: str) -> list[Step]:
        """The steps of the plan for a host with this name."""
        reasons, mb = self.reasons, self.fetches
        return [
            Step(host, n, reasons.get(n, ""), MINUTES, mb.get(n, 0), reboots=n == "reboot")
            for n in self.names
        ]


def changes(cluster: SurveyedCluster, name: str) -> Changes:
    """The system changes that a host needs for its role in the cluster.

    Raises:
        UsageError: they are not possible: no driver exists for the card or system, or Secure Boot,
            the kernel or a running process prevents its use; or the user's home directory does not
            exist or cannot be used.
    """
    facts = cluster.facts[name]
    if not facts.system.home_on:
        raise UsageError(
            f"the home directory {facts.home} does not exist",
            hint=f"there, as root: mkhomedir_helper {facts.user}",
        )
    if re.search(r"\s", facts.home):
        raise UsageError(
            f"the home directory {facts.home!r} has a space, at which Open MPI splits paths",
            hint=f"there, as root: usermod --move-home --home /home/{facts.user} {facts.user}",
        )
    parts = missing(cluster, name)
    needed = drivers.choose(facts)
    if needed:
        refuse(facts, needed)
    installed = needed is not None and is_installed(facts, needed)
    row = None if installed else needed
    hold = needed.hold if needed else _not_held(cluster, facts)
    apt = bool(parts or hold or (row and row.packages))
    mend = facts.system.dpkg_broken and not facts.system.apt_busy
    return Changes(
        wait_cloud_init=facts.system.cloud_init == "running",
        mend_dpkg=mend and (apt or cluster.inventory.kind.in_cloud),
        packages=tuple(sorted(set(parts.values()))),
        driver=row,
        hold=hold,
        reboot=installed or (row is not None and row.reboot),
        reasons=_reasons(facts, parts, row, installed),
    )


def missing(cluster: SurveyedCluster, name: str) -> dict[str, str]:
    """The missing system parts for a host's role in the cluster, each with its package."""
    facts, environment = cluster.facts[name], cluster.environment
    incomplete = any(environment.digest not in f.envs for f in cluster.facts.values())
    needs_wheel = environment.horovod and incomplete
    builds = needs_wheel and not cluster.wheel and name == cluster.builder
    python = {} if environment.python in facts.pythons else {"python3": "python3"}
    return python | runtimes.missing_parts(facts, chief=name == cluster.chief, builds=builds)


def is_installed(facts: HostFacts, row: DriverRow) -> bool:
    """Whether all packages of the row are installed: then only its module is not loaded."""
    return bool(row.packages) and all(p in facts.system.packages for p in row.packages)


def _not_held(cluster: SurveyedCluster, facts: HostFacts) -> tuple[str, ...]:
    """Patterns to hold, on a stack's machine, if an earlier bootstrap stopped before its hold."""
    if (
        not cluster.inventory.kind.in_cloud
        or not facts.gpu.cards
        or facts.os not in drivers.SYSTEMS
    ):
        return ()
    if any(card.arch not in drivers.KNOWN for card in facts.gpu.cards):
        return ()
    row = drivers.row(facts)
    ours = [p for p in facts.system.packages if any(fnmatch(p, pattern) for pattern in row.hold)]
    not_held = set(ours) - facts.system.held
    return row.hold if not_held and is_installed(facts, row) else ()


def _reasons(
    facts: HostFacts, parts: Mapping[str, str], row: DriverRow | None, installed: bool
) -> dict[str, str]:
    busy = f"; after {', '.join(facts.system.apt_busy)}" if facts.system.apt_busy else ""
    lacks = f"{', '.join(parts)} missing: apt {' '.join(sorted(set(parts.values())))}"
    wrong = drivers.wrong(facts) if facts.gpu.cards else ""
    reboot = "loads the new driver" + (" in place of Nouveau" if facts.gpu.nouveau else "")
    driver = "held against upgrades"
    if row:
        source = row.installer or " ".join(row.packages)
        driver = f"{wrong}: {row.flavour} {row.branch}, {row.why}: {source}; {driver}"
    return {
        "cloud-init": "its first boot has not finished",
        "mend": "an installation was interrupted: dpkg --configure -a",
        "system": lacks + busy,
        "driver": driver,
        "reboot": f"{wrong}, although the driver is installed" if installed else reboot,
    }


def refuse(facts: HostFacts, row: DriverRow) -> None:
    """UsageError if this row does not work on this host, or would break installed or running
    software."""
    system = facts.system
    if system.secure_boot and not row.signed:
        raise UsageError(
            f"Secure Boot is on and the driver is not signed ({row.why})",
            hint="turn Secure Boot off for this machine, or use one of Ubuntu's own images",
        )
    _refuse_in_use(facts)
    if is_installed(facts, row) or not row.packages:
        return
    if _installed_without_apt(facts):
        raise UsageError(
            f"{drivers.wrong(facts)}, and apt did not install that driver",
            hint="as root: nvidia-uninstall   # or another image",
        )
    if not row.signed and not system.headers and not _kernel_from_archive(facts):
        raise UsageError(
            f"no headers for the kernel {system.kernel}, which the driver is built with: its "
            "package is not in this system's archive",
            hint="boot the system's own kernel",
        )


def _refuse_in_use(facts: HostFacts) -> None:
    """UsageError if a process uses a GPU or a run is active: it needs the driver or the host."""
    users = [user for user in facts.gpu.users if "nvidia-persiste" not in user]
    users += sorted({f"run {process.run_id}" for process in facts.run_processes})
    if users:
        raise UsageError(
            f"{drivers.wrong(facts)}, and the host is in use: {', '.join(users)}",
            hint="end these processes, then the same command again",
        )


def _installed_without_apt(facts: HostFacts) -> bool:
    """Whether a driver was installed without a package: apt would overwrite its files."""
    installed = facts.gpu.driver is not None or bool(facts.gpu.smi)
    return installed and not any("nvidia" in package for package in facts.system.packages)


def _kernel_from_archive(facts: HostFacts) -> bool:
    """Whether the running kernel is from the system's archive, which then has its headers."""
    kernel = facts.system.kernel
    names = (f"linux-image-{kernel}", f"linux-image-unsigned-{kernel}")
    return any(name in facts.system.packages for name in names)


def mixed(facts: Mapping[str, HostFacts]) -> str:
    """The card types and their hosts if there are several usable types; otherwise empty."""
    kinds: dict[str, list[str]] = {}
    for name, host in facts.items():
        for card in sorted({str(card) for card in drivers.usable(host)}):
            kinds.setdefault(card, []).append(name)
    if len(kinds) < 2:
        return ""
    return "; ".join(f"{card} on {', '.join(names)}" for card, names in kinds.items())
