"""What the user's ssh_config says about a host: `ssh -G` resolves it, by OpenSSH's own rules.

It runs what ssh itself would run (`Match exec`), and is as trusted as ssh.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from railhead.documents.lazy import dataclass

from ...errors import UsageError
from ...inventory.owner import account

SECONDS = 10  # for one name: `ssh -G` may resolve names and run commands
FRESH_SECONDS = 60  # an answer may depend on the network in which this computer is
SYSTEM = Path("/etc/ssh")
# The lines of a freshly installed SYSTEM that have no effect here.
WITHOUT_EFFECT = re.compile(
    r"(?i)\s*(#.*|include /etc/ssh/ssh_config\.d/\*\.conf|host \*"
    r"|(sendenv|hashknownhosts|gssapiauthentication)\s.*)?"
)
DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")  # OpenSSH's default keys that paramiko can use


@dataclass(frozen=True)
class HostConfig:
    """How ssh reaches `name`: the settings that `ssh -G` prints with `options`, each with its
    values in order. `is_read`: False if there is no ssh client, so the files were not read."""

    name: str
    settings: Mapping[str, Sequence[str]] = field(repr=False)
    options: Sequence[str] = ()
    is_read: bool = True

    def get(self, setting: str) -> str:
        """The first value; empty if there is none, or it is `none`."""
        value = next(iter(self.settings.get(setting, ())), "")
        return "" if value.lower() == "none" else value

    @property
    def host(self) -> str:
        """The name or address to connect to."""
        return self.get("hostname") or self.name

    @property
    def port(self) -> int:
        """The port of its sshd."""
        return int(self.get("port") or 22)

    @property
    def user(self) -> str:
        """The login user."""
        return self.get("user") or getpass.getuser()

    @property
    def known_hosts(self) -> tuple[Path, ...]:
        """The files with host keys that ssh reads."""
        lists = self.get("userknownhostsfile"), self.get("globalknownhostsfile")
        return tuple(Path(at_home(file)) for files in lists for file in files.split())

    @property
    def alias(self) -> str:
        """The name of its entries in known_hosts, if it is not the address."""
        return self._expanded(self.get("hostkeyalias"))

    @property
    def key_files(self) -> tuple[Path, ...]:
        """The private keys, or their public parts, in order."""
        files = self.settings.get("identityfile", ())
        return tuple(Path(at_home(self._expanded(file))) for file in files if file != "none")

    @property
    def agent(self) -> str:
        """The socket of the ssh-agent; empty: none."""
        path = next(iter(self.settings.get("identityagent", ())), "SSH_AUTH_SOCK")
        if path == "SSH_AUTH_SOCK":
            return os.environ.get("SSH_AUTH_SOCK", "")
        return "" if path.lower() == "none" else at_home(os.path.expandvars(path))

    @property
    def proxy_command(self) -> str:
        """The shell command whose input and output are the connection."""
        return self._expanded(self.get("proxycommand"), variables=False)

    @property
    def jumps(self) -> tuple[str, ...]:
        """The jump hosts, [user@]host[:port] each, in order."""
        return tuple(jump.strip() for jump in self.get("proxyjump").split(",") if jump)

    def is_on(self, setting: str) -> bool:
        """Whether a setting is `yes`."""
        return self.get(setting) in ("yes", "true")

    def _expanded(self, text: str, *, variables: bool = True) -> str:
        """A text with its tokens and ${variables} replaced: `ssh -G` leaves them in some
        settings."""
        here = socket.gethostname() if "%" in text else ""
        tokens = {
            "%": "%",
            "d": str(Path.home()),
            "h": self.host,
            "i": str(os.getuid()),
            "k": self.get("hostkeyalias") or self.host,
            "L": here.partition(".")[0],
            "l": here,
            "n": self.name,
            "p": str(self.port),
            "r": self.user,
            "u": getpass.getuser() if "%" in text else "",
        }
        text = re.sub("%(.)", lambda token: tokens.get(token[1], token[0]), text)
        return os.path.expandvars(text) if variables else text


def at_home(path: str) -> str:
    """A path with $HOME as its home. ssh uses the account's home: a file that is not there is
    sought in $HOME."""
    home = f"{account().pw_dir}/"
    if path.startswith(home) and not Path(path).exists():
        path = f"~/{path.removeprefix(home)}"
    return str(Path.home() / path[2:]) if path.startswith("~/") else path


def is_home_of_account() -> bool:
    """Whether $HOME is the account's home, which ssh uses."""
    return str(Path.home()) == account().pw_dir


def config_option() -> list[str]:
    """The ssh option with the user's file, if $HOME is not the account's home."""
    return [] if is_home_of_account() or not _own_file().exists() else ["-F", str(_own_file())]


def resolve(name: str, user: str | None = None, port: int | None = None) -> HostConfig:
    """The settings of `ssh [-l user] [-p port] name`.

    Raises:
        UsageError: ssh refuses the configuration, or has not read it in time.
    """
    options = config_option()
    options += ["-l", user] if user else []
    options += ["-p", str(port)] if port else []
    file = _own_file()
    changed = file.stat().st_mtime_ns if file.exists() else 0
    state = (str(file), changed, int(time.monotonic() // FRESH_SECONDS))
    return _resolved(name, tuple(options), state)


@lru_cache(maxsize=1024)
def _resolved(name: str, options: Sequence[str], _state: tuple[str, int, int]) -> HostConfig:
    if _is_empty():
        return HostConfig(name, _defaults(options), options)
    argv = ["ssh", "-G", *options, "--", name]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # to end its commands with it
        )
    except OSError:
        return HostConfig(name, _defaults(options), options, is_read=False)
    shown = shlex.join(argv)
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise UsageError(
            f"your ssh has not read its configuration for {name} within {SECONDS} s: a command of"
            " Match exec, or a name that does not resolve?",
            hint=shown,
        ) from None
    if process.returncode:
        words = "; ".join(errors.split("\n")[:-1][-3:]) or f"exit {process.returncode}"
        raise UsageError(f"your ssh does not accept its configuration: {words}", hint=shown)
    settings: dict[str, list[str]] = {}
    for line in output.splitlines():
        setting, _, value = line.partition(" ")
        settings.setdefault(setting, []).append(value)
    return HostConfig(name, settings, options)


def _is_empty() -> bool:
    """Whether no file has a setting for a host: then ssh (7 ms per name) is not started. False if a
    file cannot be read: ssh then reports it."""
    files = [SYSTEM / "ssh_config", *SYSTEM.glob("ssh_config.d/*.conf")]
    with contextlib.suppress(OSError):
        return not _own_file().exists() and all(
            WITHOUT_EFFECT.fullmatch(line)
            for file in files
            if file.exists()
            for line in file.read_text(errors="replace").splitlines()
        )
    return False


def _own_file() -> Path:
    return Path.home() / ".ssh/config"


def _defaults(options: Sequence[str]) -> dict[str, list[str]]:
    """The settings without a configuration, with the user and the port of `options`."""
    names = {"-l": "user", "-p": "port"}
    given = zip(options[::2], options[1::2], strict=True)
    return {
        "identityfile": [f"~/.ssh/{name}" for name in DEFAULT_KEYS],
        "userknownhostsfile": ["~/.ssh/known_hosts"],
        "globalknownhostsfile": [str(SYSTEM / "ssh_known_hosts")],
        **{names[option]: [value] for option, value in given if option in names},
    }
