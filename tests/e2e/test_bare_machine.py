"""scripts/setup on a bare Debian: a root file system with apt and nothing else that we need.

It fetches some 200 MB from the registries that this machine reaches, so it is slow and root's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosts.base import CACHE, SEALED, SUITE, architecture, copy_apt_settings, locked, mirror
from hosts.command import PATH
from hosts.command import run as command

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
# Not where Debian keeps its own: installing ca-certificates there would write that file anew.
CERTIFICATES = "/etc/machine-certificates.crt"
POLICY = "#!/bin/sh\n# not from railhead\nexit 0\n"
# Printed by the same shell that ran set-up: its processes end with it.
SERVERS = "cat /proc/[0-9]*/comm | grep -c '^sshd$'"
ENABLED = "find /etc/systemd/system /etc/rc?.d -name '*ssh*' ! -name 'K*'"

Inside = Callable[..., "subprocess.CompletedProcess[str]"]


def minimal_system() -> Path:
    """Debian's minimal variant, without a Python; built once (network) and cached."""
    system = CACHE / f"bare-{SUITE}-{architecture()}"
    with locked(CACHE / "bare-lock"):
        if not system.exists():
            part = system.with_name(system.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            source = [mirror()] if mirror() else []
            command(*SEALED, "debootstrap", "--variant=minbase", SUITE, str(part), *source)
            copy_apt_settings(part)
            part.rename(system)
    return system


def clone_into(folder: Path) -> None:
    """The project's tracked files, as they are here now."""
    for name in command("git", "-C", str(ROOT), "ls-files").splitlines():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def settings(root: Path) -> dict[str, str]:
    """Give the machine at `root` this machine's way to package indexes: names, certificates."""
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
    """Run a shell command as root on the bare machine, in the clone, in a world of its own."""
    if reason := needs():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("bare") / "root"
    command("cp", "-a", str(minimal_system()), str(root))
    environment = settings(root) | {"HOME": "/root", "LC_ALL": "C"}
    environment["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    clone_into(root / "srv/railhead")

    def run(text: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        text = f"mount -t proc proc /proc; cd /srv/railhead; {text}"
        argv = [*SEALED, "chroot", str(root), "/bin/sh", "-c", text]
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=seconds
        )

    yield run
    command("rm", "-rf", str(root))


def test_a_bare_debian_becomes_ready(inside: Inside) -> None:
    refused = inside("scripts/setup")
    assert refused.returncode == 2
    assert "next: apt-get install -y python3 python3-venv" in refused.stderr

    # As set-up's next command says, but for python3-venv: set-up knows how to add that itself.
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
    assert inside("which sshd mpirun mpicxx cmake g++ make").stdout.count("\n") == 6
    assert inside("ls /usr/sbin/policy-rc.d*").stdout == "/usr/sbin/policy-rc.d\n"

    again = inside("scripts/setup")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_a_server_that_was_there_stays_enabled(inside: Inside) -> None:
    inside(
        "apt-get install -y -q openssh-server; update-rc.d ssh enable; apt-get purge -y -q cmake"
    )
    before = inside(ENABLED).stdout
    assert before
    done = inside(f"scripts/setup; echo rc=$?; {ENABLED}")
    assert "setup: installing cmake (" in done.stdout, done.stdout + done.stderr
    assert "neither started" not in done.stdout
    assert done.stdout.endswith(f"rc=0\n{before}")
