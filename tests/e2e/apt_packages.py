"""The packages for the systemd hosts of the tests, and the disk from which these start."""

from __future__ import annotations

from pathlib import Path

from e2e.gpu_standin import NOTE, add_drivers
from hosts.network import Network
from hosts.packages import Repository, sha256
from hosts.systemd import SystemdHost

from bootstrap.provision.system_script import Keyring

OURS = "/srv/ours"  # the repository's folder on each host
REAL = "/etc/apt/sources.real"  # Debian's own: to read its lists takes seconds
HELD = "/held"  # while a host has this file, its apt waits in a script of some packages
WAIT = f"for _ in $(seq 600); do [ -e {HELD} ] || break; sleep 0.1; done"
BRIEF_APT = 'Acquire::Languages "none"; Acquire::Retries::Delay "false";'


def fill(folder: Path) -> Repository:
    """Packages for tests: quick ones, slow ones, and those of a driver."""
    repository = Repository(folder)
    repository.add("quick", postinst=NOTE)
    repository.add("slow", postinst=f"sleep 3\n{NOTE}")
    repository.add("held", postinst=f"{WAIT}\n{NOTE}")
    repository.add("held-to-unpack", preinst=WAIT, postinst=NOTE, files={"/opt/torn": "whole"})
    repository.add("fails", postinst="echo this cannot be; exit 7")
    repository.add("needs-more", depends="no-such-package (>= 2)")
    add_drivers(repository)
    return repository


def disk(network: Network, repository: Repository) -> Path:
    """A disk without a Python, whose apt knows our repository and keeps the real one aside."""
    seed = SystemdHost(network, "seed", binds={repository.folder: OURS})
    seed.write("/etc/apt/sources.list.d/ours.list", repository.source(f"file:{OURS}"))
    seed.write(REAL, seed.read("/etc/apt/sources.list"))
    seed.write("/etc/apt/sources.list", "")
    seed.write("/etc/apt/apt.conf.d/90brief", BRIEF_APT)
    seed.start()
    assert seed.exec("apt-get", "update", "-q").returncode == 0
    return seed.retire()


def known_keyring(repository: Repository) -> dict[str, Keyring]:
    """The package with the key of NVIDIA's repository, replaced by one of ours."""
    package = repository.add("cuda-keyring", postinst=NOTE)
    return {"debian-12": Keyring(f"file:{OURS}/{package.name}", sha256(package))}
