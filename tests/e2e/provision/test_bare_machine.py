"""scripts/setup on a bare Debian: a root file system with apt, without our requirements.

It fetches some 200 MB from the registries that this machine reaches, so it is slow and root's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts.base import SEALED, SUITE, architecture, copy_apt_settings, mirror
from hosts.command import PATH
from hosts.command import run as command
from hosts.disk import Disk
from hosts.prepared import digest_of, prepared
from places import ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(900)]

# Not where Debian keeps its own: installing ca-certificates there would write that file anew.
CERTIFICATES = "/etc/machine-certificates.crt"
POLICY = "#!/bin/sh\n# not from railhead\nexit 0\n"
# Printed by the same shell that ran set-up: its processes end with it.
SERVERS = "cat /proc/[0-9]*/comm | grep -c '^sshd$'"
ENABLED = "find /etc/systemd/system /etc/rc?.d -name '*ssh*' ! -name 'K*'"

Inside = Callable[..., "subprocess.CompletedProcess[str]"]


# Set-up installs these. Their dependencies are on the disk already, so that a test installs some
# ten packages, not a hundred.
PARTS = "openssh-server openmpi-bin"
NEVER = f"{PARTS} openssh-client openssh-sftp-server"
DEPENDENCIES = f"""
set -eu
apt-get update -q
needed=$(apt-get install -s --no-install-recommends {PARTS} | sed -n 's/^Inst \\([^ ]*\\) .*/\\1/p')
for name in {NEVER}; do needed=$(echo "$needed" | grep -vx -e "$name"); done
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $needed
rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/*
for tool in python3 ssh sshd mpirun; do
  if command -v $tool; then exit 1; fi
done
"""


@contextmanager
def minimal_system() -> Iterator[Path]:
    """Debian's minimal variant without a Python, kept in the caches (network, minutes)."""

    def build(system: Path) -> None:
        part = system.with_name(system.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        source = [mirror()] if mirror() else []
        command(*SEALED, "debootstrap", "--variant=minbase", SUITE, str(part), *source)
        copy_apt_settings(part)
        command(*SEALED, "chroot", str(part), "/bin/sh", "-c", DEPENDENCIES)
        part.rename(system)

    digest = digest_of((), SUITE, architecture(), DEPENDENCIES)
    with prepared("bare", digest, build) as system:
        yield system


def clone_into(folder: Path) -> None:
    """The project's tracked files, as they are here now."""
    for name in command("git", "-C", str(ROOT), "ls-files").splitlines():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def settings(root: Path) -> dict[str, str]:
    """Copy this machine's settings for package indexes: name servers, certificates."""
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    kept = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "HTTPS_PROXY", "https_proxy")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    for name in ("PIP_CERT", "SSL_CERT_FILE"):
        if name in os.environ:
            shutil.copyfile(os.environ[name], root / CERTIFICATES.lstrip("/"))
            found[name] = CERTIFICATES
    return found


def needs() -> str:
    if os.geteuid() != 0:
        return "a bare machine needs root"
    tools = [x for x in ("debootstrap", "unshare") if not shutil.which(x, path=PATH)]
    return f"a bare machine needs {' and '.join(tools)}" if tools else ""


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Run a shell command as root in the clone on the bare machine, isolated from this one."""
    if reason := needs():
        pytest.skip(reason)
    with minimal_system() as system:
        disk = Disk(tmp_path_factory.mktemp("bare") / "disk", base=system)
        yield shell_in(disk.root)
        command("umount", str(disk.root))


def shell_in(root: Path) -> Inside:
    """Copy the clone into the root file system; returns a function that runs commands there."""
    environment = settings(root) | {"HOME": "/root", "LC_ALL": "C"}
    environment["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    clone_into(root / "srv/railhead")

    def run(text: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        text = f"mount -t proc proc /proc; cd /srv/railhead; {text}"
        argv = [*SEALED, "chroot", str(root), "/bin/sh", "-c", text]
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=seconds
        )

    return run


def test_a_bare_debian_becomes_ready(inside: Inside) -> None:
    refused = inside("scripts/setup")
    assert refused.returncode == 2
    assert "next: apt-get install -y python3 python3-venv" in refused.stderr

    # The command that set-up printed, without python3-venv: set-up can install that itself.
    python = "apt-get update -q && apt-get install -y -q --no-install-recommends python3"
    policy = f"printf '%s' '{POLICY}' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d"
    prepared = inside(f"{python} && {policy}")
    assert prepared.returncode == 0, prepared.stderr

    done = inside(f"scripts/setup; echo rc=$?; {SERVERS}; {ENABLED}; cat /usr/sbin/policy-rc.d")
    assert "setup: installing openssh-server" in done.stdout, done.stdout + done.stderr
    assert "neither started nor enabled" in done.stdout
    assert done.stdout.endswith(f"\nrc=0\n0\n{POLICY}"), done.stdout + done.stderr

    assert "Fabric" in inside(".venv/bin/fab --version").stdout
    assert inside(".venv/bin/python -c 'import bootstrap.errors, numpy'").returncode == 0
    assert inside("which sshd mpirun").stdout.count("\n") == 2
    assert inside("ls /usr/sbin/policy-rc.d*").stdout == "/usr/sbin/policy-rc.d\n"

    again = inside("scripts/setup")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_a_server_that_was_there_stays_enabled(inside: Inside) -> None:
    inside("apt-get install -y -q openssh-server; update-rc.d ssh enable")
    inside("apt-get purge -y -q openmpi-bin")
    before = inside(ENABLED).stdout
    assert before
    done = inside(f"scripts/setup; echo rc=$?; {ENABLED}")
    assert "setup: installing openmpi-bin (" in done.stdout, done.stdout + done.stderr
    assert "neither started" not in done.stdout
    assert done.stdout.endswith(f"rc=0\n{before}")
