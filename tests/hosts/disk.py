"""The disk of one full host: a writable layer over the base image; it outlives the host's stops."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from hosts.base import base_image
from hosts.command import run

CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

# What tells pip, uv and curl on this machine where the package registries are, and whom to trust.
REGISTRY_SETTINGS = re.compile(
    r"PIP_(INDEX|EXTRA_INDEX|CERT|TRUSTED|DEFAULT_TIMEOUT).*|UV_(DEFAULT_INDEX|INDEX|EXTRA_INDEX).*"
    r"|UV_NATIVE_TLS|UV_SYSTEM_CERTS|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|.*_(proxy|PROXY)"
)

# A Python that reports 3.8, in sys and on its command line; everything else is real. With -S it
# would not read the file that changes sys.
OLD_PYTHON = """#!/bin/sh
case "${1-}" in -V|--version) echo "Python 3.8.10"; exit 0;; esac
flags=
while case "${1-}" in -S) ;; -I|-B) flags="$flags $1" ;; *) false ;; esac; do shift; done
exec /usr/libexec/real-python3 $flags "$@"
"""
OLD_VERSION = """import sys
sys.version_info = type("version_info", (tuple,), {
    "major": 3, "minor": 8, "micro": 10, "releaselevel": "final", "serial": 0,
})((3, 8, 10, "final", 0))
sys.version = "3.8.10 (default)"
sys.hexversion = 0x03080AF0
"""


class Disk:
    """A root file system at `root`. Raises CommandFailed if overlay cannot be mounted.

    `mb`: its size in MB, on a tmpfs; 0: as large as the machine's disk.
    `layers`: the disks of retired hosts that this one starts from; below them is `base`, the
    root file system of a system.
    """

    def __init__(
        self, folder: Path, *, mb: int = 0, layers: Sequence[Path] = (), base: Path | None = None
    ) -> None:
        self.own = folder / "disk"
        self.upper = self.own / "upper"
        self.root = folder / "root"
        self.mb = mb
        self._mount([*layers, base or base_image()])

    def _mount(self, lowers: list[Path]) -> None:
        self.own.mkdir(parents=True)
        self.root.mkdir()
        if self.mb:
            run("mount", "-t", "tmpfs", "-o", f"size={self.mb}m", "tmpfs", str(self.own))
        work = self.own / "work"
        self.upper.mkdir()
        work.mkdir()
        lower = ":".join(map(str, lowers))
        options = f"lowerdir={lower},upperdir={self.upper},workdir={work}"
        run("mount", "-t", "overlay", "-o", options, "overlay", str(self.root))

    def move(self, path: Path) -> None:
        """Unmount it and move what was written, within the file system."""
        run("umount", str(self.root))
        self.upper.rename(path)

    def leave(self, mb: int) -> None:
        """Shrink or grow the disk until `mb` MB are free (what writes more gets ENOSPC).

        Only for a disk of a given size.
        """
        if not self.mb:
            raise ValueError("this host's disk has no fixed size: create it with disk_mb")
        space = os.statvfs(self.own)
        used_kb = (space.f_blocks - space.f_bfree) * space.f_frsize // 1024
        size = f"remount,size={used_kb + mb * 1024 or 4}k"
        run("mount", "-o", size, str(self.own))

    def identify(self, name: str, address: str) -> None:
        """Write the host's name and generate its host key."""
        (self.root / "etc/hostname").write_text(f"{name}\n")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{address} {name}\n")
        self.new_host_key()

    def new_host_key(self) -> None:
        """Generate the key that its sshd presents from its next start."""
        key = self.root / "etc/ssh/ssh_host_ed25519_key"
        for old in (key, key.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "host", "-f", str(key))

    def accept(self, public_key: str) -> None:
        """Let the holder of a key log in as root and as rail."""
        for home, owner in (("root", 0), ("home/rail", 1000)):
            folder = self.root / home / ".ssh"
            folder.mkdir(mode=0o700, exist_ok=True)
            keys = folder / "authorized_keys"
            keys.write_text(public_key)
            keys.chmod(0o600)
            os.chown(folder, owner, owner)
            os.chown(keys, owner, owner)

    def give_internet(self) -> None:
        """Copy the machine's name server, certificates and package settings."""
        resolved = Path("/run/systemd/resolve/resolv.conf")
        names = resolved if resolved.exists() else Path("/etc/resolv.conf")
        shutil.copyfile(names, self.root / "etc/resolv.conf")
        for name in (CERTIFICATES, "etc/pip.conf"):
            if Path("/", name).exists():
                shutil.copyfile(Path("/", name), self.root / name)
        lines = [f"{k}={v}\n" for k, v in os.environ.items() if self._is_registry_setting(k, v)]
        (self.root / "etc/environment").write_text("".join(lines))

    def _is_registry_setting(self, name: str, value: str) -> bool:
        there = not value.startswith("/") or (self.root / value.lstrip("/")).exists()
        return bool(REGISTRY_SETTINGS.fullmatch(name)) and there

    def remove_python(self) -> None:
        """Leave the host without any Python, as minimal cloud images are."""
        for path in (self.root / "usr/bin").glob("python3*"):
            path.unlink()

    def age_python(self) -> None:
        """Replace the host's Python by one that reports 3.8."""
        binaries = self.root / "usr/bin"
        shutil.copy2(binaries / "python3.11", self.root / "usr/libexec/real-python3")
        self.remove_python()
        (binaries / "python3").write_text(OLD_PYTHON)
        (binaries / "python3").chmod(0o755)
        (self.root / "etc/python3.11/sitecustomize.py").write_text(OLD_VERSION)
