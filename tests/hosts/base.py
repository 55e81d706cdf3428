"""The root file system of every full host: Debian 12 or 13, each built once and cached.

Hosts have their own writable layer above it, so nothing ever writes to it. It has Python (the full
package: the minimal one lacks json), OpenMPI and sshd; an ordinary user `rail`; no sudo. Debian 12
has Python 3.11 and Open MPI 4.1.4, Debian 13 ("trixie") Python 3.13 and Open MPI 5.0.7.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from file_lock import locked
from hosts.command import run

CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE = CACHES / "railhead" / "test-base"
SUITE = "bookworm"
PACKAGES = (
    "openssh-server",
    "openssh-client",
    "python3",
    "openmpi-bin",
    "iproute2",
    "ca-certificates",
    "procps",
)

# Runs inside the new root. Host keys are each host's own, so the package's are removed.
SETUP = """
set -eu
useradd --create-home --shell /bin/bash rail
rm -f /etc/ssh/ssh_host_*
rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /usr/share/doc/*
test ! -e /usr/bin/sudo
python3 -c 'import json, venv'
"""

# In its own mount namespace: debootstrap's mounts of /proc and /sys end with the build, even if it
# is killed, and so do its processes.
SEALED = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


def base_image(suite: str = SUITE) -> Path:
    """The folder of a Debian's image; built if there is none of this recipe (network, minutes).

    Two processes do not build at the same time, and an interrupted build is started again. Raises
    CommandFailed.
    """
    image = CACHE / recipe_digest(suite)
    if not image.exists():
        with locked(CACHE / "lock"):
            if not image.exists():
                build(image, suite)
    return image


def recipe_digest(suite: str = SUITE) -> str:
    """A digest of everything in the image; another recipe has another folder."""
    recipe = "\n".join([suite, architecture(), *PACKAGES, SETUP])
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def build(image: Path, suite: str = SUITE) -> None:
    """Build under a temporary name and rename at the end, so that no incomplete image is used."""
    part = image.with_name(image.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    print(f"building the test hosts' base image in {image} (once)", file=sys.stderr, flush=True)
    include = "--include=" + ",".join(PACKAGES)
    arch = "--arch=" + architecture()
    source = [mirror()] if mirror() else []  # an archive has all suites
    command = ["debootstrap", arch, "--variant=minbase", include, suite, str(part), *source]
    run(*SEALED, *command)
    copy_apt_settings(part)
    run(*SEALED, "chroot", str(part), "/bin/sh", "-c", SETUP)
    part.rename(image)


def architecture() -> str:
    """Debian's name of this machine's architecture, as in amd64."""
    return run("dpkg", "--print-architecture").strip()


def mirror() -> str:
    """The address of the suite in this machine's apt settings; empty: debootstrap's default."""
    wanted = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
    for line in run("apt-get", "indextargets", "--format", wanted, check=False).splitlines():
        release, component, address = line.split(" ", 2)
        if (release, component) == (SUITE, "main"):
            return address
    return ""


def copy_apt_settings(root: Path) -> None:
    """Give the image this machine's proxies and time checks, so that apt works on the hosts."""
    kept = ("Acquire::http", "Acquire::https", "Acquire::Check", "Acquire::Retries")
    lines = [line for line in run("apt-config", "dump").splitlines() if line.startswith(kept)]
    (root / "etc/apt/apt.conf.d/99machine").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    print(base_image())
