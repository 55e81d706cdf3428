"""What of a host's system has to change, and why: root's work, before ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bootstrap.drivers import DriverRow
from bootstrap.plan import MINUTES, Step


@dataclass(frozen=True)
class Changes:
    """Root's work on one host, in the order in which it is done.

    `whys` has the reason of each step by its name: "cloud-init", "mend", "system", "driver",
    "reboot".
    """

    wait_cloud_init: bool = False
    mend_dpkg: bool = False
    packages: tuple[str, ...] = ()
    driver: DriverRow | None = None
    hold: tuple[str, ...] = ()
    reboot: bool = False
    whys: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order."""
        there = {
            "cloud-init": self.wait_cloud_init,
            "mend": self.mend_dpkg,
            "system": bool(self.packages),
            "driver": self.driver is not None,
            "reboot": self.reboot,
        }
        return tuple(name for name, wanted in there.items() if wanted)

    def steps(self, host: str) -> list[Step]:
        """The plan's steps on a host of this name."""
        fetched = {"driver": self.driver.megabytes if self.driver else 0}
        return [
            Step(host, n, self.whys.get(n, ""), MINUTES, fetched.get(n, 0), reboots=n == "reboot")
            for n in self.names
        ]
