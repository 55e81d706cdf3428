"""SSH hosts on this machine: real sshd processes on loopback addresses, for demo and tests.

Each has its own host key, HOME and TMPDIR (two of OpenMPI's daemons in one /tmp crash now and
then). `python -m bootstrap.local start|stop|read`, JSON in on stdin and out on stdout, is how
others use it; Linux only. Nothing here can stop anything but these sshd and their children.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap import record
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import Host, Inventory

MARK = "RAILHEAD_LOCAL"  # in the environment of every process of a local host
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
# How the person's shell reaches package indexes; a local host reaches them the same way.
NETWORK = tuple(
    [
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "PIP_CERT",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
        "UV_INDEX",
    ]
)


@dataclass(frozen=True)
class LocalHost:
    """One local host and the folder that it lives in."""

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
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / "sshd.pid").read_text())
            if str(self.folder / "sshd_config") in _command_line(pid):
                return pid
        return None


def start(cluster: str, count: int, base: str | None = None) -> Inventory:
    """Start `count` hosts, or those of them that are not running, and record the cluster.

    Raises:
        UsageError: this is not Linux, or sshd is missing.
    """
    sshd = _sshd()
    folder = record.cluster_folder(cluster)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _make_key(folder / "key", f"railhead-local:{cluster}")
    hosts = [_host(folder, f"h{i}", _address(cluster, i, base)) for i in range(1, count + 1)]
    inventory = _inventory(cluster, folder, hosts)
    record.save_cluster(inventory)
    _pin_keys(folder, hosts)
    for host in hosts:
        if host.pid is None:
            _start(host, sshd)
    for host in hosts:
        _wait_for(host)
    return inventory


def _sshd() -> str:
    if sys.platform != "linux":
        raise UsageError("local SSH hosts need Linux: they live on addresses of 127.0.0.0/8")
    for path in SSHD:
        if Path(path).exists():
            return path
    raise UsageError(
        "sshd is not installed here",
        hint="scripts/setup   # installs it without starting or enabling it",
    )


def _address(cluster: str, index: int, base: str | None) -> str:
    """127.x.y.i, from the cluster's name, so that two clusters do not share addresses."""
    digest = hashlib.sha256(cluster.encode()).digest()
    return f"{base or f'127.{64 + digest[0] % 128}.{digest[1]}'}.{index}"


def _host(folder: Path, name: str, address: str) -> LocalHost:
    """The host as it was last time, with its port if that is still free, else with a new one."""
    own = folder / "hosts" / name
    for sub in ("home/.ssh", "tmp"):
        (own / sub).mkdir(parents=True, exist_ok=True, mode=0o700)
    _make_key(own / "host_key", name)
    known = own / "port"
    host = LocalHost(name, own, address, int(known.read_text()) if known.exists() else 0)
    if host.pid is None and not _free(address, host.port):
        host = LocalHost(name, own, address, _free_port(address))
        record.write_text(known, str(host.port))
    return host


def _free(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        return port != 0
    return False


def _free_port(address: str) -> int:
    with socket.socket() as s:
        s.bind((address, 0))
        return int(s.getsockname()[1])


def _make_key(path: Path, comment: str) -> None:
    if not path.exists():
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def _inventory(cluster: str, folder: Path, hosts: list[LocalHost]) -> Inventory:
    stop = (sys.executable, "-m", "bootstrap.local", "stop", cluster)
    return Inventory(
        name=cluster,
        cloud="local",
        key_file=str(folder / "key"),
        hosts=tuple(
            Host(
                name=h.name,
                address=h.address,
                peer_address=h.address,
                user=getpass.getuser(),
                port=h.port,
                slots=1,
                id=f"{cluster}/{h.name}",
                host_key=_public(h),
                stop=(*stop, h.name),
            )
            for h in hosts
        ),
    )


def _public(host: LocalHost) -> str:
    return " ".join((host.folder / "host_key.pub").read_text().split()[:2])


def _pin_keys(folder: Path, hosts: list[LocalHost]) -> None:
    lines = [f"[{h.address}]:{h.port} {_public(h)}\n" for h in hosts]
    record.write_text(folder / "known_hosts", "".join(lines))


def _start(host: LocalHost, sshd: str) -> None:
    _authorize(host)
    text = SSHD_CONFIG.format(
        address=host.address,
        port=host.port,
        folder=host.folder,
        home=host.home,
        environment=" ".join(f'{name}="{value}"' for name, value in _environment(host).items()),
    )
    record.write_text(host.folder / "sshd_config", text)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)  # sshd's empty folder, made at boot
    argv = [sshd, "-f", str(host.folder / "sshd_config"), "-E", str(host.folder / "sshd.log")]
    subprocess.run(
        argv, check=True, stdin=subprocess.DEVNULL, env={**os.environ, MARK: str(host.folder)}
    )


def _environment(host: LocalHost) -> dict[str, str]:
    passed = {name: os.environ[name] for name in NETWORK if name in os.environ}
    return passed | {
        "HOME": str(host.home),
        "TMPDIR": str(host.folder / "tmp"),
        "UV_CACHE_DIR": str(record.cache("uv")),
        "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        MARK: str(host.folder),
    }


def _authorize(host: LocalHost) -> None:
    """Let the cluster's key in; lines that others added (a cluster key of a run) stay."""
    key = (host.folder.parent.parent / "key.pub").read_text().strip()
    path = host.home / ".ssh" / "authorized_keys"
    lines = path.read_text().splitlines() if path.exists() else []
    if key not in lines:
        record.write_text(path, "\n".join([*lines, key]) + "\n")


def _wait_for(host: LocalHost, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host.address, host.port), 1):
            return
        time.sleep(0.02)
    log = (host.folder / "sshd.log").read_text().splitlines()[-3:]
    raise RailheadError(f"sshd of {host.name} did not start: {' / '.join(log)}")


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def existing(cluster: str) -> list[LocalHost]:
    """The local hosts of a cluster, running or not."""
    folder = record.cluster_folder(cluster)
    addresses = {h.name: h.address for h in record.load_cluster(cluster).hosts}
    return [_host(folder, name, address) for name, address in addresses.items()]


def processes(host: LocalHost) -> list[int]:
    """Every process that belongs to this host: its sshd and all that came through it.

    They carry the mark, or are children of one that does; sshd writes its title over its mark.
    """
    mark = f"{MARK}={host.folder}".encode()
    ours = {pid} if (pid := host.pid) else set()
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = _parent(entry)
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                ours.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sorted(ours - {os.getpid()})


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def stop(cluster: str, names: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """End the hosts' sshd and every process of theirs, and look again whether they are gone."""
    said = {}
    hosts = {host.name: host for host in existing(cluster)}
    if unknown := set(names or ()) - hosts.keys():
        raise UsageError(f"{cluster} has no host {min(unknown)!r}; it has {', '.join(hosts)}")
    for host in (hosts[name] for name in names or hosts):
        before = processes(host)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            _signal(host, sign)
        left = processes(host)
        closed = _free(host.address, host.port)
        said[host.name] = {"ended": len(before), "left": left, "port_closed": closed}
    return said


def _signal(host: LocalHost, sign: signal.Signals) -> None:
    end = time.monotonic() + 3
    while (pids := processes(host)) and time.monotonic() < end:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        time.sleep(0.05)


def read(cluster: str) -> dict[str, dict[str, Any]]:
    """Whether each host runs, and where."""
    return {
        h.name: {"running": h.pid is not None, "address": h.address, "port": h.port}
        for h in existing(cluster)
    }


def destroy(cluster: str) -> None:
    """Stop the hosts and remove their homes and the record."""
    stop(cluster)
    shutil.rmtree(record.cluster_folder(cluster))


USAGE = 'python -m bootstrap.local start|stop|read CLUSTER [HOST]   # start reads: {"hosts": 2}'


def main(argv: list[str]) -> int:
    """JSON on stdout and 0; a sentence on stderr and the error's exit code."""
    try:
        print(json.dumps(_answer(*argv)))
    except RailheadError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


def _answer(verb: str = "", cluster: str = "", *names: str) -> Any:
    if verb == "start":
        from bootstrap.document import to_document

        asked: Mapping[str, Any] = json.load(sys.stdin)
        return to_document(start(cluster, int(asked["hosts"])))
    if verb not in ("stop", "read"):
        raise UsageError(f"{verb!r} is none of: start, stop, read", hint=USAGE)
    return stop(cluster, list(names)) if verb == "stop" else read(cluster)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
