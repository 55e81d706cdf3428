"""Offers to an sshd the keys that OpenSSH would offer, in its order: keys of the agent that an
identity file names, the agent's other keys (not with IdentitiesOnly), then keys of files."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
from collections.abc import Callable
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.ssh_exception import (
    AuthenticationException,
    BadAuthenticationType,
    PasswordRequiredException,
    SSHException,
)

from railhead.documents.lazy import dataclass

from ...errors import RailheadError
from .ssh_config import HostConfig
from .transport import Transport

AGENT_SECONDS = 5.0
SIGN_SECONDS = 60.0  # somebody may have to touch a hardware key, or to confirm
LARGEST = 1 << 16  # bytes of a key file
MAGIC = b"openssh-key-v1\0"


class NotAccepted(AuthenticationException):
    """The sshd accepts none of the keys that could be offered. `methods`: the methods that it
    accepts; `partial`: it accepted a key, and requires another method; `locked`, `others`: key
    files that could not be used, because of a passphrase or of their type; `closed`: it closed the
    connection, after `count` keys; `printed`: its banner, and its reason for closing."""

    def __init__(self) -> None:
        super().__init__("none of your keys is accepted")
        self.methods: frozenset[str] = frozenset()
        self.partial = False
        self.locked: list[Path] = []
        self.others: list[Path] = []
        self.unreadable: OSError | None = None
        self.closed, self.count, self.printed = False, 0, ""


class AgentSilent(RailheadError):
    """The ssh-agent does not answer."""


class Agent(AgentSSH):
    """The ssh-agent at a socket, with a bound on each answer; without keys if there is no agent."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def keys(self) -> tuple[Any, ...]:
        """Its keys, for paramiko."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(AGENT_SECONDS)
        try:
            self._socket.connect(self._path)
        except TimeoutError:
            raise self._silent() from None
        except OSError:
            self._socket.close()
            return ()
        self._connect(self._socket)  # type: ignore[attr-defined]
        self._socket.settimeout(SIGN_SECONDS)
        return self.get_keys()

    def _send_message(self, message: Any) -> Any:
        try:
            return super()._send_message(message)  # type: ignore[misc]
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> AgentSilent:
        return AgentSilent(
            f"the ssh-agent at {self._path} does not answer",
            hint="ssh-add -l   # if it hangs too: start the agent again, or unset SSH_AUTH_SOCK",
        )

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]


@dataclass
class Keys:
    """Logs in over an encrypted transport, in OpenSSH's order instead of paramiko's."""

    config: HostConfig
    own: str | None = None  # a private key of the cluster's, used alone
    failure: NotAccepted = field(default_factory=NotAccepted)

    def authenticate(self, transport: Transport) -> None:
        """Log in.

        Raises:
            NotAccepted: no key is accepted, or a key is not sufficient.
            AgentSilent: the agent does not answer.
        """
        offered = 0
        user = self.config.user
        with contextlib.closing(Agent("" if self.own else self.config.agent)) as agent:
            identities = self._identities(agent)
            for identity in identities:
                key = self._loaded(identity) if isinstance(identity, Path) else identity
                if key is None:
                    continue
                offered += 1
                attempt = partial(self._attempt, transport, key, asks=len(identities) > 1)
                if self._logged_in(transport, attempt):
                    return
                methods = self.failure.methods
                if not transport.is_active() or (methods and "publickey" not in methods):
                    break
        ended = self.failure.partial or not transport.is_active()
        if not ended and self._logged_in(transport, lambda: transport.auth_none(user)):
            return  # for example, the network has already authenticated us
        words = self.failure.printed, transport.farewell
        self.failure.printed = "\n".join(words).strip()[-600:]
        self.failure.closed, self.failure.count = not transport.is_active(), offered
        raise self.failure

    def _attempt(self, transport: Transport, key: paramiko.PKey, *, asks: bool) -> list[str]:
        """Log in with a key. If there are several, only a key that the host accepts signs, as with
        ssh."""
        if asks:
            transport.ask(self.config.user, key)
        return transport.auth_publickey(self.config.user, key)

    def _logged_in(self, transport: Transport, attempt: Callable[[], list[str]]) -> bool:
        try:
            remaining = attempt()
        except BadAuthenticationType as refused:
            self.failure.methods = frozenset(refused.allowed_types)
            return False
        except AuthenticationException as error:
            if "timeout" in str(error):
                raise TimeoutError(str(error)) from None
            return False
        except SSHException:
            if transport.is_active():
                return False  # a key that cannot sign
            raise
        finally:  # paramiko forgets the banner at the next attempt
            banner = (transport.get_banner() or b"").decode(errors="replace").strip()
            self.failure.printed = banner or self.failure.printed
        self.failure.methods = frozenset(remaining)
        self.failure.partial = bool(remaining)
        return not remaining

    def _identities(self, agent: Agent) -> list[paramiko.PKey | Path]:
        """The identities to offer, in order: keys of the agent, and key files."""
        paths = (Path(self.own),) if self.own else self.config.key_files
        files = {path: public_part(path) for path in dict.fromkeys(paths)}
        in_agent = [] if self.own else list(agent.keys())
        named = [key for key in in_agent if key.blob in files.values()]
        others = [] if self.config.is_on("identitiesonly") else in_agent
        taken = {key.blob for key in named}
        rest = [path for path, public in files.items() if public not in taken and path.exists()]
        return [*named, *(key for key in others if key not in named), *rest]

    def _loaded(self, path: Path) -> paramiko.PKey | None:
        """The private key of a file; None if it cannot be used here."""
        try:
            return paramiko.PKey.from_path(path)
        except OSError as error:
            self.failure.unreadable = error
        except (TypeError, PasswordRequiredException):  # from cryptography: it has a passphrase
            self.failure.locked.append(path)
        except Exception:  # its decoders raise errors of many types
            self.failure.others.append(path)
        return None


def public_part(path: Path) -> bytes | None:
    """The public part of an identity, as ssh finds it: in the file itself, or in FILE.pub."""
    text = _content(path)
    with contextlib.suppress(ValueError, struct.error, IndexError):
        if b"OPENSSH PRIVATE KEY" in text:
            return _embedded(_decoded(text))
        public = text if text and b"PRIVATE" not in text else _content(Path(f"{path}.pub"))
        return base64.b64decode(public.split()[1], validate=True)
    return None


def has_passphrase(path: Path) -> bool:
    """Whether a file is a private key with a passphrase."""
    text = _content(path)
    with contextlib.suppress(ValueError, IndexError):
        if b"OPENSSH PRIVATE KEY" in text:
            return _decoded(text)[len(MAGIC) + 4 :][:4] != b"none"
    return b"ENCRYPTED" in text


def _decoded(text: bytes) -> bytes:
    """The decoded text between the first and the last line of a private key."""
    return base64.b64decode(b"".join(text.split(b"-----")[2].split()))


def _embedded(data: bytes) -> bytes | None:
    """The public part of a private key in OpenSSH's format: it is never encrypted."""
    if not data.startswith(MAGIC):
        return None
    at = len(MAGIC)
    for _ in range(3):  # the names of cipher and kdf, and its options
        at += 4 + struct.unpack_from(">I", data, at)[0]
    length = struct.unpack_from(">I", data, at + 4)[0]  # after the number of keys
    return data[at + 8 : at + 8 + length]


def _content(path: Path) -> bytes:
    """The beginning of a key file; empty if there is none that can be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError:
        return b""
