"""Somebody with their own home, and the local SSH hosts that they name by --hosts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bootstrap.clouds.local.cluster import existing
from bootstrap.clouds.local.host import LocalHost
from bootstrap.inventory.hosts import Host, Inventory


class Cluster:
    """Started local hosts as other people's machines: nothing here vouches for them yet."""

    def __init__(self, inventory: Inventory) -> None:
        self.key = Path(inventory.key_file or "")
        self.machines = existing(inventory.name)
        self.user = inventory.chief.user or ""

    def host(self, index: int) -> Host:
        """One of them as --hosts names it; `index` counts from 0."""
        machine = self.machines[index]
        return Host(machine.name, machine.address, user=self.user, port=machine.port)


def named(*hosts: Host) -> Inventory:
    """What --hosts makes of these."""
    return Inventory("hosts-test", hosts)


def line(machine: LocalHost, key: Path | None = None) -> str:
    """The line of known_hosts for a machine, or for its name with another key."""
    public = (key or machine.folder / "host_key").with_suffix(".pub").read_text().split()
    return f"[{machine.address}]:{machine.port} {public[0]} {public[1]}\n"


def make_key(path: Path, kind: str = "ed25519") -> Path:
    """A new key pair without a passphrase."""
    short = ["-b", "2048"] if kind == "rsa" else []  # the default takes seconds
    argv = ["ssh-keygen", "-q", "-t", kind, *short, "-N", "", "-f", str(path)]
    subprocess.run(argv, check=True)
    return path


class Operator:
    """Who types: their ~/.ssh, written as each test needs it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ssh = home / ".ssh"
        self.ssh.mkdir(mode=0o700, exist_ok=True)

    def has(self, key: Path) -> None:
        """Their key is this one."""
        shutil.copy(key, self.ssh / "id_ed25519")
        shutil.copy(key.with_suffix(".pub"), self.ssh / "id_ed25519.pub")

    def knows(self, *machines: LocalHost) -> None:
        """Their known_hosts has these."""
        self.write_known(line(machine) for machine in machines)

    def write_known(self, lines: Iterable[str]) -> Path:
        """Their known_hosts is this."""
        path = self.ssh / "known_hosts"
        path.write_text("".join(lines))
        return path

    def configures(self, text: str) -> None:
        """Their ssh_config is this."""
        (self.ssh / "config").write_text(text)
