"""A connection over the user's own ssh, for what paramiko cannot do: second factors and passwords,
typed at the terminal once in a command; hardware keys, Kerberos, certificates, other algorithms.

One ssh process logs in and stays in the background (ControlMaster); commands and ports go through
its socket. ssh itself verifies the host keys, against a copy of our known_hosts.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import paramiko

from railhead.documents.lazy import dataclass

from ...console import log
from ...console.output import print_lines
from ...errors import Command, Hint, RailheadError
from ...inventory.hosts import Host
from ..connection import PortClosed, PortsOff, Serve, served
from ..host_keys import UnknownHostKey, fingerprint, parsed_key, read_pins
from ..traffic import host_traffic
from .hop import CONNECT_SECONDS, LOGIN_TRIES, Hop, login_slots
from .keys import has_passphrase
from .process_channel import ProcessChannel
from .ssh_config import is_home_of_account

LOGIN_SECONDS = 60.0
TYPING_SECONDS = 180.0  # for somebody to type; an sshd allows 120
ASK_SECONDS = 20.0  # for an answer of the ssh process in the background
IDLE_SECONDS = 60  # after which this process ends by itself if we were killed
PROMPTS = frozenset({"keyboard-interactive", "password"})
STRICT = (
    *("StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no"),
    *("VerifyHostKeyDNS=no", "CheckHostIP=no", "NoHostAuthenticationForLocalhost=no"),
    *(f"ConnectTimeout={CONNECT_SECONDS}", "ServerAliveInterval=15", "ServerAliveCountMax=4"),
)
QUIET = (
    *("ClearAllForwardings=yes", "PermitLocalCommand=no", "ForwardAgent=no", "ForwardX11=no"),
    *("RequestTTY=no", "RemoteCommand=none", "Tunnel=no"),
)
_NOISE = re.compile(r"debug\d: |OpenSSH_|Pseudo-terminal|Transferred: |Bytes per second|\s*$")
_HOST_KEY = re.compile(r"debug1: Server host (?:key|certificate): \S+ (SHA256:[^\s,]+)")
_METHODS = re.compile(r"Permission denied \(([\w,-]+)\)")
_NOT_KNOWN = re.compile(r"No \S+ host key is known for (\S+) and")
_CHANGED = re.compile(r"Host key for (\S+) has changed and")
_REVOKED = re.compile(r"host key for (\S+) was revoked and")
_BUSY = re.compile(r"kex_exchange_identification|[Cc]onnection (?:reset|closed) by")
_OUT_OF_REACH = re.compile(
    r"timed out|refused|No route|unreachable|Could not resolve|Connection (?:reset|closed)|banner"
)
_typing = threading.Lock()


class OpenSshFailed(RailheadError):
    """The user's ssh could not log in; `out_of_reach`: it may succeed later."""

    out_of_reach = False


@dataclass(eq=False)
class Master:
    """The ssh process that has logged in (ControlMaster), and its socket in a temporary folder."""

    hops: Sequence[Hop]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rh-", dir="/tmp")))

    @property
    def log(self) -> str:
        """The output of ssh."""
        text = ""
        for name in ("log", "errors"):
            with contextlib.suppress(OSError):
                text += (self.folder / name).read_text(errors="replace")
        return text

    @property
    def words(self) -> str:
        """The last lines of ssh and of the host, without ssh's own progress."""
        lines = [line.strip() for line in self.log.splitlines() if not _NOISE.match(line)]
        return "; ".join(dict.fromkeys(lines[-4:]))[-600:]

    def start(self, *options: str, seconds: float, errors: Any) -> bool:
        """Log in; the process then continues in the background. False if it could not log in."""
        argv = [
            *("ssh", "-N", "-f", "-o", "ControlMaster=yes", "-o", f"ControlPath={self.folder}/s"),
            *("-o", f"ControlPersist={IDLE_SECONDS}", *options, *_settings(QUIET)),
            *(*login_options(self.hops, self.folder, options), "--", self.hops[-1].config.name),
        ]
        with log.timed(f"{shlex.join(argv)}"):
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                process.kill()
                process.wait()

    def client(self, *words: str) -> list[str]:
        """An ssh command that uses the socket, and never connects by itself."""
        own = ("-F", "none", "-o", f"ControlPath={self.folder}/s", "-o", "ControlMaster=no")
        return ["ssh", *own, "-o", "ProxyCommand=false", "-o", "BatchMode=yes", *words]

    def control(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The outcome of a control command (`ssh -O`)."""
        return subprocess.run(
            self.client("-O", *words, "--", "x"),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=ASK_SECONDS,
        )

    @property
    def is_running(self) -> bool:
        """Whether the process runs and is logged in."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return self.control("check").returncode == 0
        return False

    def close(self) -> None:
        """End the process and remove its folder."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.control("exit")
        shutil.rmtree(self.folder, ignore_errors=True)


_numbers = itertools.count()
_masters: dict[tuple[Any, ...], Master] = {}


@atexit.register
def _close_all() -> None:
    for master in [*_masters.values()]:
        master.close()


class OpenSshConnection:
    """The open connection to a host through a master."""

    def __init__(self, host: Host, master: Master) -> None:
        self.host, self.master = host, master
        self._channels: list[ProcessChannel] = []
        self._shell: ProcessChannel | None = None

    @cached_property
    def host_key(self) -> paramiko.PKey:
        """The host key that ssh has verified: the pinned key; if ssh verified a certificate, the
        host's own key file with this fingerprint."""
        found = _HOST_KEY.findall(self.master.log)
        shown = found[-1] if found else ""
        files = self.master.hops[-1].pins.files
        keys = [entry.key for file in files for entry in read_pins(file)._entries]  # type: ignore[attr-defined]
        for key in keys:
            if fingerprint(key) == shown:
                return cast(paramiko.PKey, key)
        command = self.master.client("-T", "--", "x", "cat /etc/ssh/ssh_host_*_key.pub")
        output = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS).stdout
        for line in output.splitlines():
            entry = parsed_key(line)
            if entry and fingerprint(entry.key) == shown:
                return entry.key
        raise RailheadError(
            f"paramiko cannot use the host key {shown} of {self.host}",
            hint=Command("trust", hosts=self.host),
        )

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self._shell is not None and self._shell.process.poll() is None

    def shell(self, command: str) -> ProcessChannel:
        """A channel in which a command runs."""
        self._shell = self._channel(self.master.client("-T", "--", "x", command))
        return self._shell

    def open_port(self, port: int) -> ProcessChannel:
        """A channel to a loopback port of the host."""
        argv = self.master.client("-v", "-W", f"127.0.0.1:{port}", "--", "x")
        channel = self._channel(argv)
        late = threading.Timer(ASK_SECONDS, channel.process.kill)
        late.start()
        try:
            assert channel.process.stderr
            for line in channel.process.stderr:
                if b"master session id" in line:
                    return channel
        finally:
            late.cancel()
        channel.close()
        reason = self.master.words.rpartition("open failed: ")[2]
        if reason.startswith("administratively prohibited"):
            raise PortsOff(reason)
        raise PortClosed(reason.partition(";")[0] or "not connected")

    @contextlib.contextmanager
    def lend_port(self, serve: Serve) -> Iterator[int]:
        """Yields a loopback port of the host; `serve` handles its connections here."""
        if not self.is_connected:
            raise PortClosed("the connection has ended")
        path = self.master.folder / f"p{next(_numbers)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(64)
            answer = self.master.control("forward", "-R", f"127.0.0.1:0:{path}")
            port = answer.stdout.strip()
            if answer.returncode or not port.isdigit():
                raise PortsOff(answer.stderr.strip())
            with served(listener, serve):
                try:
                    self._require_loopback(int(port))
                    yield int(port)
                finally:
                    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                        self.master.control("cancel", "-R", f"127.0.0.1:0:{path}")

    def _require_loopback(self, port: int) -> None:
        """PortsOff if other machines can connect too: with GatewayPorts, sshd lets them in."""
        command = self.master.client("-T", "--", "x", "cat /proc/net/tcp /proc/net/tcp6")
        output = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS).stdout
        if re.search(rf": (?!0100007F:|0{{24}}01000000:)[0-9A-F]+:{port:04X} 0+:0000 0A", output):
            raise PortsOff("with GatewayPorts yes, other machines could use the port")

    def _channel(self, argv: Sequence[str]) -> ProcessChannel:
        self._channels = [c for c in self._channels if c.process.poll() is None]
        channel = ProcessChannel(argv, errors=True, traffic=host_traffic(self.host.name))
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        """Close the connection; a master for which somebody has typed stays until the command
        ends."""
        for channel in self._channels:
            channel.close()
        if self.master not in _masters.values():
            self.master.close()


def kept(host: Host, hops: Sequence[Hop]) -> OpenSshConnection | None:
    """A connection over the master for which somebody has typed in this command, or None."""
    master = _masters.get(_key(hops))
    return OpenSshConnection(host, master) if master and master.is_running else None


def log_in(host: Host, hops: Sequence[Hop]) -> OpenSshConnection:
    """Log in by ssh; if keys do not suffice, the user types at the terminal.

    Raises:
        OpenSshFailed: with the last lines of ssh and of the host.
    """
    master = Master(hops)
    try:
        if not _without_typing(master, host):
            methods = {*",".join(_METHODS.findall(master.words)[-1:]).split(",")}
            locked = _locked(hops) if methods - {""} and not PROMPTS & methods else None
            if not PROMPTS & methods and not locked:
                raise _failed(host, master)
            _type(master, host, locked)
    except BaseException:
        master.close()
        raise
    return OpenSshConnection(host, master)


def _key(hops: Sequence[Hop]) -> tuple[Any, ...]:
    return (str(Path.home()), *((hop.config.name, *hop.config.options) for hop in hops))


def _without_typing(master: Master, host: Host) -> bool:
    """Log in with keys alone; returns whether that succeeds. Tries again if an overloaded sshd
    closes the connection."""
    for attempt in range(1, LOGIN_TRIES + 1):
        host_traffic(host.name).connections += 1
        options = ("-v", "-E", str(master.folder / "log"), "-o", "BatchMode=yes")
        with (master.folder / "errors").open("w") as errors, login_slots(master.hops[0].config):
            began = time.monotonic()
            if master.start(*options, seconds=LOGIN_SECONDS, errors=errors):
                return True
        late = time.monotonic() - began > CONNECT_SECONDS
        if late or attempt == LOGIN_TRIES or not _BUSY.search(master.words):
            return False
        time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
    return False


def _type(master: Master, host: Host, locked: Path | None) -> None:
    """Log in with a code, a password or the passphrase of the key `locked`: the user types it at
    the terminal, and only ssh reads it."""
    if locked and not has_terminal():
        raise OpenSshFailed(
            f"{locked} has a passphrase, and no ssh-agent holds it",
            hint=shlex.join(["ssh-add", str(locked)]),
        )
    if not has_terminal():
        raise OpenSshFailed(
            f"{master.words}; there is no terminal to type at",
            hint=Hint(
                "the same command in a terminal; or: ", shlex.join(["ssh-copy-id", str(host)])
            ),
        )
    with _typing:  # one host after the other
        print_lines(f"{host.name}: your ssh asks on the terminal")
        host_traffic(host.name).connections += 1
        if not master.start(seconds=TYPING_SECONDS, errors=None):
            raise OpenSshFailed(
                "your ssh could not log in; it has written why above", hint=_typed(master.hops)
            )
        _masters[_key(master.hops)] = master


def _failed(host: Host, master: Master) -> OpenSshFailed:
    words = master.words
    if "Host key verification failed" in words and (error := _other_key(host, master)):
        return error
    if "Permission denied (publickey)" in words:
        words = f"none of your keys is accepted: {words}"
    error = OpenSshFailed(words or "your ssh has not logged in in time", hint=_typed(master.hops))
    error.out_of_reach = not words or _OUT_OF_REACH.search(words) is not None
    return error


def _other_key(host: Host, master: Master) -> OpenSshFailed | None:
    """The error about a host key that ssh has refused, with the known_hosts file that decides."""
    if match := _NOT_KNOWN.search(master.log):
        return OpenSshFailed(f"unknown host key: {match[1]}", hint=Command("trust", hosts=host))
    files = [file for hop in master.hops for file in hop.pins.files if file.is_file()]
    if match := _REVOKED.search(master.log):
        revoking = next((file for file in files if read_pins(file).revoked), files[0])
        return OpenSshFailed(
            f"REFUSED, its host key is revoked in {revoking}: {match[1]}",
            hint=shlex.join(["ssh-keygen", "-l", "-F", match[1], "-f", str(revoking)]),
        )
    if match := _CHANGED.search(master.log):
        file = next((file for file in files if read_pins(file).lookup(match[1])), files[0])
        forget = shlex.join(["ssh-keygen", "-R", match[1], "-f", str(file)])
        return OpenSshFailed(
            f"REFUSED, its host key changed: {match[1]}; it may be another machine",
            hint=Hint("if you know why: ", forget),
        )
    return None


def require_known_key(hops: Sequence[Hop]) -> None:
    """Raise UnknownHostKey, with the key that the last host presents, if no key of it is known."""
    with contextlib.closing(Master(hops)) as master:
        take = ("StrictHostKeyChecking=accept-new", "HashKnownHosts=no")
        only = ("PreferredAuthentications=none", "BatchMode=yes")
        with (master.folder / "errors").open("w") as errors:
            master.start(*_settings(take + only), seconds=LOGIN_SECONDS, errors=errors)
        file = master.folder / f"known_hosts-{len(hops) - 1}"
        lines = file.read_text().splitlines()[len(_known_hosts(hops[-1]).splitlines()) :]
        for name, _, text in (line.partition(" ") for line in lines):
            if entry := parsed_key(text):
                raise UnknownHostKey(name, entry.key)


def _typed(hops: Sequence[Hop]) -> str:
    config = hops[-1].config
    return shlex.join(["ssh", *config.options, config.name, "true"])


def has_terminal() -> bool:
    """Whether somebody can see and answer a prompt of ssh."""
    if os.environ.get("SSH_ASKPASS_REQUIRE") == "force":
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return sys.stderr.isatty()


def _locked(hops: Sequence[Hop]) -> Path | None:
    """A key file with a passphrase that could be typed."""
    files = (file for hop in hops for file in hop.config.key_files)
    return next((file for file in files if has_passphrase(file)), None)


def login_options(hops: Sequence[Hop], folder: Path, given: Sequence[str] = ()) -> list[str]:
    """The ssh options for the last hop; all hops use our host keys."""
    batch = [*given[-2:]] if "BatchMode=yes" in given else []
    way = ""
    options: list[str] = []
    for number, hop in enumerate(hops):
        if number:
            before = [*options, "-o", "ControlPath=none", "-W", _place(hop), "--"]
            name = hops[number - 1].config.name
            way = shlex.join(["ssh", *batch, *before, name]).replace("%", "%%")
        file = folder / f"known_hosts-{number}"
        file.write_text(_known_hosts(hop))
        options = [*hop.config.options, *_settings(STRICT), "-o", f"UserKnownHostsFile={file}"]
        options += ["-o", f"HostKeyAlias={hop.pins.name}"] if hop.pins.name else []
        options += _key_options(hop)
        if way:
            options += ["-o", f"ProxyCommand={way}"]
        elif hop.config.jumps:
            options += ["-o", "ProxyJump=none"]
    return options


def _place(hop: Hop) -> str:
    host = hop.config.host
    return f"[{host}]:{hop.config.port}" if ":" in host else f"{host}:{hop.config.port}"


def _key_options(hop: Hop) -> list[str]:
    """Options for the key of the cluster alone; or, if $HOME is not the account's home, for the
    keys in $HOME."""
    if hop.key_file:
        alone = ("IdentitiesOnly=yes", "IdentityAgent=none")
        return [*_settings(alone), "-o", f"IdentityFile={_quoted(hop.key_file)}"]
    if is_home_of_account():
        return []
    files = [file for file in hop.config.key_files if file.exists()]
    return [word for file in files for word in ("-o", f"IdentityFile={_quoted(str(file))}")]


def _quoted(path: str) -> str:
    return '"' + path.replace("%", "%%") + '"'


def _settings(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("-o", setting)]


def _known_hosts(hop: Hop) -> str:
    """The known_hosts for ssh: the entries of the first file that has one; besides, the revoked
    keys and certificate authorities of all files."""
    host, port = hop.config.host, hop.config.port
    name = hop.pins.name or (host if port == 22 else f"[{host}]:{port}")
    files = [file for file in hop.pins.files if file.is_file()]
    first = next((file for file in files if read_pins(file).lookup(name)), None)
    lines = (
        line
        for file in files
        for line in file.read_text(errors="replace").splitlines()
        if first in (None, file) or line.lstrip().startswith("@")
    )
    return "\n".join(lines) + "\n"
