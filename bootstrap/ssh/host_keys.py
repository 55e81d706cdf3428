"""Host key verification: every host key must be pinned; an unknown or changed key is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys
from paramiko.ssh_exception import BadHostKeyException, SSHException

from railhead.documents.lazy import dataclass

from ..console.threads import in_one_thread


def parsed_key(text: str) -> HostKeyEntry | None:
    """The entry of a public key such as `ssh-ed25519 AAAA...`; None if it cannot be parsed."""
    try:
        return HostKeyEntry.from_line(f"name {text}")
    except Exception:  # its decoders raise errors of many types
        return None


class UnknownHostKey(SSHException):
    """No key is pinned for this host; `key` is the host's key, `hostname` its known_hosts name."""

    def __init__(self, hostname: str, key: paramiko.PKey) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key


class ChangedHostKey(SSHException):
    """The host's `key` differs from the key that `file` pins under `hostname`."""

    def __init__(self, hostname: str, key: paramiko.PKey, file: Path) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key
        self.file = file


class RevokedHostKey(ChangedHostKey):
    """`file` says that the host's `key` is revoked."""


@dataclass(frozen=True)
class Pins:
    """Where the keys of a host are pinned: the first of `files` with an entry for the host decides.
    `name`: the name of its entries, if it is not the address."""

    files: tuple[Path, ...]
    name: str | None = None


class _AnyOf:
    """Several pinned keys of one type: a host may use any of them, as with OpenSSH."""

    def __init__(self, keys: Sequence[paramiko.PKey]) -> None:
        self.keys = keys

    def get_name(self) -> str:
        return self.keys[0].get_name()

    def __eq__(self, key: object) -> bool:
        return key in self.keys

    __hash__ = None  # type: ignore[assignment]  # equal to several keys, so it has no hash


class KnownKeys(HostKeys):
    """The keys of a known_hosts file, and the keys that it revokes, for any host."""

    def __init__(self) -> None:
        super().__init__()
        self.revoked: list[paramiko.PKey] = []


class _RefuseUnknown(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        client.refuse_revoked(hostname, key)
        raise UnknownHostKey(hostname, key)


class Client(paramiko.SSHClient):
    """A client that accepts pinned keys only; the first file with an entry for the name decides."""

    def __init__(self, pins: Pins) -> None:
        super().__init__()
        self._name = pins.name
        self.set_missing_host_key_policy(_RefuseUnknown())
        self._pins = [(file, read_pins(file)) for file in pins.files]

    def connect(self, hostname: str, port: int = 22, **kwargs: Any) -> None:  # type: ignore[override]
        looked_up = hostname if port == 22 else f"[{hostname}]:{port}"
        name = self._name or looked_up
        pinned = [(file, pins) for file, pins in self._pins if pins.lookup(name)]
        if pinned:
            revoked = [key for _, pins in self._pins for key in pins.revoked]
            self._system_host_keys = _renamed(name, looked_up, pinned[0][1], revoked)
        try:
            super().connect(hostname, port, **kwargs)
        except BadHostKeyException as bad:
            self.refuse_revoked(name, bad.key)
            raise ChangedHostKey(name, bad.key, pinned[0][0]) from bad

    def refuse_revoked(self, name: str, key: paramiko.PKey) -> None:
        """Raise RevokedHostKey when one of the files revokes this key."""
        for file, pins in self._pins:
            if key in pins.revoked:
                raise RevokedHostKey(name, key, file)


def _renamed(
    name: str, looked_up: str, pins: HostKeys, revoked: Sequence[paramiko.PKey]
) -> HostKeys:
    """The unrevoked pins of `name`, under the name that paramiko looks up: one entry for each key
    type."""
    by_type: dict[str, list[paramiko.PKey]] = {}
    for entry in getattr(pins.lookup(name), "_entries", ()):
        if entry.key not in revoked:
            by_type.setdefault(entry.key.get_name(), []).append(entry.key)
    renamed = HostKeys()
    for key_type, keys in by_type.items():
        key = keys[0] if len(keys) == 1 else _AnyOf(keys)
        renamed.add(looked_up, key_type, key)  # type: ignore[arg-type]
    return renamed


def read_pins(file: Path) -> KnownKeys:
    """The keys of a known_hosts file that paramiko can compare; empty when there is no file.

    Lines that paramiko cannot read, such as those of certificate authorities, are skipped.
    """
    try:
        now = file.stat()
    except FileNotFoundError:
        return KnownKeys()
    return _read(file, now.st_mtime_ns, now.st_size)


@in_one_thread
@lru_cache(maxsize=16)  # all hosts of a command share one read, until the file changes
def _read(file: Path, _mtime_ns: int, _size: int) -> KnownKeys:
    pins = KnownKeys()
    for line in map(str.strip, file.read_text(errors="replace").splitlines()):
        text = line.removeprefix("@revoked")
        if text.startswith(("#", "@")):
            continue
        with contextlib.suppress(Exception):  # its decoders raise exceptions of many types
            entry = HostKeyEntry.from_line(text.strip())
            if entry and text != line:
                pins.revoked.append(entry.key)
            elif entry:
                pins._entries.append(entry)  # type: ignore[attr-defined]  # add() is quadratic
    return pins


def fingerprint(key: paramiko.PKey) -> str:
    """SHA256:... as `ssh-keygen -l` prints it."""
    return str(key.fingerprint)
