"""Drivers are data: which one a host's cards and system need, and what brings it there. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DriverRow:
    """How one driver comes to one host.

    `packages` are apt's; with `repository` they are in NVIDIA's own, which is added first.
    `installer` is the image's own program, and then there are no packages. `hold` are the packages
    that no upgrade may move afterwards. `megabytes` are fetched, and take `disk` bytes when
    installed.
    """

    branch: int
    flavour: str
    packages: tuple[str, ...]
    why: str
    repository: bool = False
    installer: str | None = None
    reboot: bool = True
    hold: tuple[str, ...] = ()
    megabytes: int = 0
    disk: int = 0
