"""One SSH host on this computer: its folder, address, port, keys, settings and sshd.

Each has its own host key, HOME and TMPDIR (two OpenMPI daemons that share one /tmp crash
sometimes). Linux only. `cluster` makes clusters of them; `processes` ends them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sys
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.installation import INSTALL_SSHD

from ...console import log
from ...console.wait import wait_until
from ...errors import RailheadError, UsageError
from ...inventory import caches
from ...inventory.files import atomic_write
from . import processes
from .package_index import settings_of_pip

SSHD = ("/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd")

SSHD_CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {home}/.ssh/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment no
X11Forwarding no
PrintMotd no
LogLevel VERBOSE
Subsystem sftp internal-sftp -d {home}
SetEnv {environment}
"""
# Settings with which the user's shell reaches package indexes; local hosts use the same ones.
NETWORK = (
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"),
)


@dataclass(frozen=True)
class LocalHost:
    """One local host and its folder."""

    name: str
    folder: Path
    address: str
    port: int

    @property
    def home(self) -> Path:
        """Its HOME."""
        return self.folder / "home"

    @property
    def pid(self) -> int | None:
        """The pid of its sshd; None when that is not running."""
        return processes.sshd(self.folder)

    @property
    def public_key(self) -> str:
        """Its host key, as known_hosts has it."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])


def program() -> str:
    """The path of sshd. UsageError: this is not Linux, or sshd is missing."""
    if sys.platform != "linux":
        raise UsageError("local SSH hosts need Linux: they use addresses of 127.0.0.0/8")
    for path in SSHD:
        if Path(path).exists():
            return path
    raise UsageError("sshd is not installed here", hint=INSTALL_SSHD)


def address(cluster: str, index: int) -> str:
    """127.x.y.i, derived from the cluster's name, so that two clusters do not share addresses."""
    digest = hashlib.sha256(cluster.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{index}"


def make(folder: Path, name: str, address: str) -> LocalHost:
    """Create or load a host; it keeps its port if that is free, and gets a new one otherwise."""
    host_folder = folder / "hosts" / name
    for sub in ("home/.ssh", "tmp"):
        (host_folder / sub).mkdir(parents=True, exist_ok=True, mode=0o700)
    make_key(host_folder / "host_key", name)
    port_file = host_folder / "port"
    port = int(port_file.read_text()) if port_file.exists() else 0
    host = LocalHost(name, host_folder, address, port)
    if host.pid is None and not processes.free(address, host.port):
        host = LocalHost(name, host_folder, address, _free_port(address))
        atomic_write(port_file, str(host.port))
    return host


def _free_port(address: str) -> int:
    with socket.socket() as s:
        s.bind((address, 0))
        return int(s.getsockname()[1])


def make_key(path: Path, comment: str) -> None:
    """Create a key pair without a passphrase, unless it exists."""
    if not path.exists():
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        log.run(argv, check=True, env={"PATH": os.environ.get("PATH", os.defpath)}, cwd="/")


def run(host: LocalHost) -> None:
    """Start its sshd without the environment of this process, which may contain secrets."""
    _authorize(host)
    text = SSHD_CONFIG.format(
        address=host.address,
        port=host.port,
        folder=host.folder,
        home=host.home,
        environment=" ".join(f'{name}="{value}"' for name, value in _environment(host).items()),
    )
    atomic_write(host.folder / "sshd_config", text)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)  # sshd needs it; created at boot
    argv = [program(), "-f", str(host.folder / "sshd_config"), "-E", str(host.folder / "sshd.log")]
    clean = {"PATH": os.defpath, processes.MARK: str(host.folder)}
    log.run(argv, check=True, env=clean, cwd="/")


def _environment(host: LocalHost) -> dict[str, str]:
    passed = {name: os.environ[name] for name in NETWORK if name in os.environ}
    pip = settings_of_pip().items()
    # Its proxy and certificates would apply to the programs of runs as well.
    index = {name: value for name, value in pip if name.startswith("UV_")}
    return {**index, **passed} | {
        "HOME": str(host.home),
        "TMPDIR": str(host.folder / "tmp"),
        "UV_CACHE_DIR": str(caches.cache("uv")),
        # This Python's folder is last: that of conda may have another MPI and another ssh.
        "PATH": f"/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:{Path(sys.base_prefix) / 'bin'}",
        processes.MARK: str(host.folder),
    }


def _authorize(host: LocalHost) -> None:
    """Authorize the cluster's key; other lines (such as the cluster key of a run) stay."""
    key = (host.folder.parent.parent / "key.pub").read_text().strip()
    path = host.home / ".ssh" / "authorized_keys"
    lines = path.read_text().splitlines() if path.exists() else []
    if key not in lines:
        atomic_write(path, "\n".join([*lines, key]) + "\n")


def wait_for(host: LocalHost, seconds: float = 10) -> None:
    """Wait until it listens; otherwise RailheadError with the last lines of its log."""

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host.address, host.port), 1):
            return bool(host.pid)  # it writes its pid file after it starts to listen
        return False

    if wait_until(listens, seconds=seconds, every=0.02):
        return
    lines = (host.folder / "sshd.log").read_text().splitlines()[-3:]
    raise RailheadError(f"sshd of {host.name} did not start: {' / '.join(lines)}")
