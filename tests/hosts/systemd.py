"""A full host that boots a real systemd: units, timers, journald, poweroff, and reboot of itself.

    host = SystemdHost(network, "s1")
    host.start()
    before = host.boot_id(); host.exec("systemctl", "reboot"); host.wait_for_reboot(before)

systemd-nspawn is its outer process and creates its namespaces; what the host does to "the machine",
it does to that process. It is a Debian 12 like minimal cloud images: without Python and curl, and
`rail` may use sudo without a password. With `base=cloud_image()` it has Python, an ssh client and
cloud-init as well.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from file_lock import locked
from hosts import cleanup
from hosts.base import CACHE, SEALED, SUITE, architecture, copy_apt_settings, mirror
from hosts.command import PATH, run
from hosts.full_host import FullHost
from hosts.network import Network
from hosts.process import child_of

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "iproute2",
    "ca-certificates",
    "procps",
    "sudo",
)
SETUP = """
set -eu
useradd --create-home --shell /bin/bash rail
echo 'rail ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/rail
rm -f /etc/ssh/ssh_host_* /etc/machine-id
rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /usr/share/doc/*
"""
# By apt: debootstrap configures cloud-init's Python packages in a wrong order.
CLOUD = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends python3 openssh-client cloud-init
"""
BARE = "test ! -e /usr/bin/python3\n"
REBOOTED = 133  # what systemd-nspawn ends with when its payload requested a reboot
BOOT_SECONDS = 40.0


def system_image() -> Path:
    """The root file system of such hosts; built if it is not cached (a minute)."""
    return _image("systemd", SETUP + BARE)


def cloud_image() -> Path:
    """The same with the packages of cloud images; built if it is not cached."""
    return _image("systemd-cloud", "set -eu\n" + CLOUD + SETUP)


def _image(name: str, setup: str) -> Path:
    recipe = "\n".join([SUITE, architecture(), *PACKAGES, setup])
    image = CACHE / (f"{name}-" + hashlib.sha256(recipe.encode()).hexdigest()[:16])
    if not image.exists():
        with locked(CACHE / "systemd-lock"):
            if not image.exists():
                build(image, setup)
    return image


def build(image: Path, setup: str) -> None:
    """Build beside the final place and rename last, so that a half image is never used."""
    part = image.with_name(image.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    print(f"building the systemd hosts' image in {image} (once)", file=sys.stderr, flush=True)
    include = "--include=" + ",".join(PACKAGES)
    source = [mirror()] if mirror() else []
    run(*SEALED, "debootstrap", "--variant=minbase", include, SUITE, str(part), *source)
    copy_apt_settings(part)
    run(*SEALED, "chroot", str(part), "/bin/sh", "-c", setup)
    part.rename(image)


def missing() -> str:
    """Why this machine cannot run such hosts beside full ones; empty if it can."""
    if not shutil.which("systemd-nspawn", path=PATH):
        return "hosts with systemd need: apt-get install systemd-container"
    return ""


class SystemdHost(FullHost):
    """A host in a network, created but not started. `boots` counts its boots."""

    def __init__(
        self,
        network: Network,
        name: str,
        *,
        binds: Mapping[Path, str] | None = None,
        base: Path | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(network, name, binds=binds, base=base or system_image(), **kw)
        self.write("/etc/machine-id", uuid.uuid4().hex + "\n")
        self.boots = 0
        self.comes_back = True
        self._wanted = False

    def start(self, *, wait: bool = True) -> None:
        """Boot with the present disk. Raises RuntimeError if no sshd listens in time."""
        self.legs.turn("up")
        self._wanted = True
        self._boot()
        threading.Thread(target=self._keep_up, daemon=True).start()
        if wait:
            self.wait()

    def _boot(self) -> None:
        self.boots += 1
        groups = cleanup.cgroups(self.legs.namespace)
        for group in groups:
            group.mkdir(exist_ok=True)
        # Each host has its own control groups; otherwise all would share the machine's.
        enter = "".join(f"echo $$ >{group}/cgroup.procs; " for group in groups)
        binds = [f"--bind={source}:{target}" for source, target in self._binds.items()]
        nspawn = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit"]
        nspawn += [f"--network-namespace-path=/run/netns/{self.legs.namespace}"]
        nspawn += [f"--directory={self.disk.root}", f"--machine={self.name}", "--settings=no"]
        nspawn += ["--console=pipe", "--link-journal=no", "--resolv-conf=off", "--timezone=off"]
        with (self.folder / "console").open("ab") as console:
            self._outer = subprocess.Popen(
                ["sh", "-c", f'{enter}exec "$@"', "sh", *nspawn, *binds],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                env={**os.environ, "PATH": PATH},
            )

    def _keep_up(self) -> None:
        """Boot it again whenever it requests a reboot, as a machine's firmware does."""
        outer = self._outer
        while outer and outer.wait() == REBOOTED and self.comes_back and self._wanted:
            self.init = 0
            self._boot()
            outer = self._outer

    def stop(self, *, silent: bool = False) -> None:
        """As for a full host; also if it has powered itself off."""
        self._wanted = False
        if self._outer and self._outer.poll() is not None:
            self._outer, self.init = None, 0
        super().stop(silent=silent)

    def wait_for_power_off(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait until it has powered itself off. Raises TimeoutExpired if it does not."""
        assert self._outer is not None
        code = self._outer.wait(seconds)
        assert code == 0, f"{self.name} ended with {code}"

    @property
    def is_on(self) -> bool:
        """Whether it runs."""
        return self._outer is not None and self._outer.poll() is None

    def wait(self) -> None:
        """Wait until its sshd listens."""
        self._wait_up("")

    def wait_for_reboot(self, before: str) -> None:
        """Wait until it is up with a boot id other than `before`."""
        self._wait_up(before)

    def _wait_up(self, before: str) -> None:
        end = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < end:
            pid = child_of(self._outer.pid) if self._outer else 0
            if pid and self._listens(pid):
                self.init = pid
                if self.boot_id() != before:
                    return
            time.sleep(0.02)
        console = (self.folder / "console").read_text(errors="replace")
        raise RuntimeError(f"{self.name} did not start:\n{console[-2000:]}")

    def _listens(self, pid: int) -> bool:
        try:
            systemd = Path(f"/proc/{pid}/comm").read_text() == "systemd\n"
            return systemd and Path(f"/proc/{pid}/root/run/sshd.pid").exists()
        except OSError:
            return False

    def boot_id(self) -> str:
        """The id of its boot, which is not the machine's."""
        return self.exec("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    def systemctl(self, *args: str) -> str:
        """What systemctl prints there."""
        return self.exec("systemctl", *args).stdout.strip()
