"""Servers of SSH besides this computer's, with the host key and the home of a local host.

dropbear and tinysshd read the home from the account: they see another /etc/passwd, in a mount
namespace of their own, which takes root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import paramiko
import pytest
from standins import newer_debian
from standins.environments import Unfetched, python_of

from bootstrap.clouds.local.host import LocalHost
from bootstrap.console.wait import wait_until

SYSTEM = "/usr/sbin:/usr/local/sbin:/usr/bin"
# tinysshd takes no keys from a home below a folder that all may write, such as /tmp.
HOME = "/mnt"
AT_HOME = f'mount --bind "$0" /etc/passwd; mount --bind "$1" {HOME}; shift; exec "$@"'
ASYNCSSH = """\
import asyncio, sys, asyncssh

address, port, key, accepted, user = sys.argv[1:]

class Server(asyncssh.SSHServer):
    def connection_made(self, connection):
        self.connection = connection

    def begin_auth(self, username):
        if username == user:
            self.connection.set_authorized_keys(accepted)
        return True

    def connection_requested(self, *_):
        return True

    def server_requested(self, *_):
        return True

async def run(process):
    pipes = dict(stdin=-1, stdout=-1, stderr=-1)
    shell = await asyncio.create_subprocess_exec("sh", "-c", process.command, **pipes)
    await process.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
    code = await shell.wait()
    await process.stdout.drain()
    process.exit(code)

async def main():
    options = dict(server_host_keys=[key], process_factory=run, encoding=None)
    await asyncssh.listen(address, int(port), server_factory=Server, **options)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def free_port(address: str) -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def run(
    argv: Sequence[str],
    ready: Callable[[], bool],
    ending: ExitStack,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start a server that ends with the stack."""
    process = subprocess.Popen(argv, stdin=-3, stdout=-3, stderr=-3, env=environment)
    ending.callback(process.wait)
    ending.callback(process.terminate)
    assert wait_until(ready, seconds=30, every=0.02), argv


def _other(machine: LocalHost, folder: Path) -> LocalHost:
    """The host at another port; `folder` is for the server's files."""
    folder.mkdir(exist_ok=True)
    return replace(machine, port=free_port(machine.address))


def listens(address: str, port: int) -> bool:
    """Whether a server is there."""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def openssh(
    machine: LocalHost,
    folder: Path,
    ending: ExitStack,
    settings: Sequence[str] = (),
    program: str = "",
) -> LocalHost:
    """OpenSSH's sshd, by default the first on PATH, with other settings."""
    other = _other(machine, folder)
    words = tuple(setting.split()[0] for setting in settings) + ("ListenAddress", "PidFile")
    text = (machine.folder / "sshd_config").read_text().splitlines()
    lines = [one for one in text if not one.startswith(words)]
    own = [f"ListenAddress {other.address}:{other.port}", f"PidFile {folder}/pid", *settings]
    (folder / "config").write_text("\n".join([*lines, *own]) + "\n")
    program = program or shutil.which("sshd", path=f"{os.environ['PATH']}:{SYSTEM}") or "sshd"
    argv = [program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
    run(argv, (folder / "pid").exists, ending)
    return other


def newer_openssh(machine: LocalHost, folder: Path, ending: ExitStack) -> LocalHost:
    """The sshd of a newer OpenSSH."""
    program = str(newer_debian.here() / "bin/sshd")
    return openssh(machine, folder, ending, ["PerSourcePenalties no"], program)


def _with_home(machine: LocalHost, folder: Path) -> list[str]:
    """What starts a program for which our account has the host's home."""
    if os.geteuid():
        pytest.skip("another home for our account needs root")
    account = pwd.getpwuid(os.getuid()).pw_name
    lines = Path("/etc/passwd").read_text().splitlines()
    fields = [line.split(":") for line in lines]
    for line in fields:
        if line[0] == account:
            line[5:] = [HOME, "/bin/sh"]
    (folder / "passwd").write_text("".join(":".join(line) + "\n" for line in fields))
    where = [str(folder / "passwd"), str(machine.home)]
    return ["unshare", "--mount", "sh", "-ec", AT_HOME, *where]


def dropbear(machine: LocalHost, folder: Path, ending: ExitStack) -> LocalHost:
    """dropbear."""
    other, programs = _other(machine, folder), newer_debian.here() / "bin"
    key = str(folder / "key")
    convert = [str(programs / "dropbearconvert"), "openssh", "dropbear"]
    own = str(machine.folder / "host_key")
    subprocess.run([*convert, own, key], check=True, capture_output=True)
    argv = [str(programs / "dropbear"), "-F", "-s", "-r", key, "-P", str(folder / "pid")]
    argv += ["-p", f"{other.address}:{other.port}"]
    run([*_with_home(machine, folder), *argv], lambda: listens(other.address, other.port), ending)
    return other


def tinyssh(machine: LocalHost, folder: Path, ending: ExitStack) -> LocalHost:
    """tinysshd, which serves one connection on its standard input and output."""
    other, keys = _other(machine, folder), folder / "keys"
    keys.mkdir()
    private = paramiko.Ed25519Key.from_private_key_file(str(machine.folder / "host_key"))
    seed, public = bytes(private._signing_key), private.asbytes()[-32:]  # type: ignore[attr-defined]
    (keys / "ed25519.pk").write_bytes(public)
    (keys / ".ed25519.sk").write_bytes(seed + public)
    program = str(newer_debian.here() / "bin/tinysshd")
    argv = [*_with_home(machine, folder), program, "-l", str(keys)]
    listener = socket.create_server((other.address, other.port))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    ends = connection.fileno()
                    process = subprocess.Popen(argv, stdin=ends, stdout=ends, stderr=-3)
                threading.Thread(target=process.wait).start()

    threading.Thread(target=serve, daemon=True).start()
    ending.callback(listener.close)
    ending.callback(listener.shutdown, socket.SHUT_RDWR)
    return other


def asyncssh(machine: LocalHost, folder: Path, ending: ExitStack) -> LocalHost:
    """A server over asyncssh, with forwards."""
    other = _other(machine, folder)
    (folder / "server.py").write_text(ASYNCSSH)
    argv = [str(python_of("asyncssh")), str(folder / "server.py"), other.address, str(other.port)]
    argv += [str(machine.folder / "host_key"), str(machine.home / ".ssh/authorized_keys")]
    argv += [pwd.getpwuid(os.getuid()).pw_name]
    run(argv, lambda: listens(other.address, other.port), ending)
    return other


OWN, NEWER = "OpenSSH", "a newer OpenSSH"
SERVERS = {NEWER: newer_openssh, "dropbear": dropbear, "tinyssh": tinyssh, "asyncssh": asyncssh}


@dataclass
class Servers:
    """The servers of one local host, each started when a test asks for it."""

    machine: LocalHost
    folder: Path
    ending: ExitStack
    started: dict[str, LocalHost] = field(default_factory=dict)

    def __getitem__(self, name: str) -> LocalHost:
        """The host by one of them; the test is skipped where that cannot be had."""
        if name == OWN:
            return self.machine
        if name not in self.started:
            folder = self.folder / f"s{len(self.started)}"
            try:
                self.started[name] = SERVERS[name](self.machine, folder, self.ending)
            except Unfetched as error:
                pytest.skip(str(error))
        return self.started[name]
