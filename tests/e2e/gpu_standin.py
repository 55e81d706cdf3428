"""Stand-ins for hardware: a GPU on the bus of a systemd host, and the packages of its driver. A
driver works from the first boot after its installation.
"""

from __future__ import annotations

import os

from hosts.packages import Repository
from hosts.systemd import SystemdHost

RAN = "/var/log/ran"  # the postinst of each package adds a line
NOTE = f"echo $DPKG_MAINTSCRIPT_PACKAGE >>{RAN}"
SMI = '#!/bin/sh\n[ "$1" = -pm ] || echo Tesla T4\n'
UNIT = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
UNIT += "[Install]\nWantedBy=multi-user.target\n"
BUS, LOADED = "/srv/pci", "/opt/driver"
MODULES = {
    "cuda-drivers-580": "x86_64 Kernel Module",
    "nvidia-open-580": "Open Kernel Module for x86_64",
}
LOADED_SMI = """#!/bin/sh
if [ ! -e /proc/driver/nvidia/version ]; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9
fi
[ "$1" = -L ] && echo "GPU 0: Tesla T4 (UUID: GPU-0)" || echo "Tesla T4"
"""
HARDWARE = f"""[Unit]
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/bin/mount --bind {BUS} /sys/bus/pci/devices
ExecStart=/bin/sh -c '[ ! -e {LOADED} ] || mount --bind {LOADED} /proc/driver'
[Install]
WantedBy=multi-user.target
"""


def add_drivers(repository: Repository) -> None:
    """Packages with NVIDIA's names: a pin, a driver in two versions, and one of each flavour."""
    repository.add("nvidia-driver-pinning-580", postinst=NOTE, files={
        "/etc/apt/preferences.d/nvidia-580": "Package: cuda-drivers*\nPin: version 580*\n"
                                             "Pin-Priority: 1000\n"})  # fmt: skip
    for version in ("580.1", "610.1"):
        repository.add("cuda-drivers", version=version, postinst=NOTE, files={
            "/usr/bin/nvidia-smi": SMI, "/lib/systemd/system/nvidia-persistenced.service": UNIT,
            "/usr/sbin/modprobe": f'#!/bin/sh\necho "$@" >>{RAN}\n'})  # fmt: skip
    for name, kind in MODULES.items():
        version = f"NVRM version: NVIDIA UNIX {kind}  580.95.05  Tue Sep 23\n"
        repository.add(name, postinst=NOTE, files={
            "/usr/bin/nvidia-smi": LOADED_SMI, f"{LOADED}/nvidia/version": version,
            "/lib/systemd/system/nvidia-persistenced.service": UNIT})  # fmt: skip


def put_card(host: SystemdHost, device: str) -> None:
    """Put a GPU on the bus, with headers for the running kernel, and restart."""
    for name, text in {"vendor": "0x10de", "class": "0x030200", "device": device}.items():
        host.write(f"{BUS}/0000:00:1e.0/{name}", f"{text}\n")
    host.write(f"/lib/modules/{os.uname().release}/build/Makefile", "")
    host.write("/etc/systemd/system/hardware.service", HARDWARE)
    wants = host.disk.root / "etc/systemd/system/multi-user.target.wants"
    (wants / "hardware.service").symlink_to("/etc/systemd/system/hardware.service")
    host.restart()
