"""Whom we believe to be which machine: host keys are pinned, and never accepted unseen.

Fabric's own policy accepts any key, a swapped one too; it is replaced on every hop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import paramiko
from fabric import Connection
from paramiko.hostkeys import HostKeyEntry, HostKeys
from paramiko.ssh_exception import BadHostKeyException, SSHException

from bootstrap.inventory.hosts import Host, Inventory


class UnknownHostKey(SSHException):
    """No pin for this host; `key` is what it showed, `hostname` its name in known_hosts."""

    def __init__(self, hostname: str, key: paramiko.PKey) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key


class ChangedHostKey(SSHException):
    """Another key than the pinned one, which stands in `file` under `hostname`."""

    def __init__(self, hostname: str, key: paramiko.PKey, file: Path) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key
        self.file = file


class _AnyOf:
    """Several keys of one kind under one name: any of them is the host's, as for ssh itself."""

    def __init__(self, keys: Sequence[paramiko.PKey]) -> None:
        self.keys = keys

    def get_name(self) -> str:
        return self.keys[0].get_name()

    def __eq__(self, shown: object) -> bool:
        return shown in self.keys

    __hash__ = None  # type: ignore[assignment]  # it is equal to keys that differ


class _Refusing(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        raise UnknownHostKey(hostname, key)


class _Client(paramiko.SSHClient):
    """A client that knows which file each pin is from; the first that has a name decides."""

    def __init__(self, files: Sequence[Path], alias: str | None) -> None:
        super().__init__()
        self._alias = alias
        self.set_missing_host_key_policy(_Refusing())
        self._pins = [(file, read_pins(file)) for file in files]

    def connect(self, hostname: str, port: int = 22, **kwargs: Any) -> None:  # type: ignore[override]
        shown = hostname if port == 22 else f"[{hostname}]:{port}"
        name = self._alias or shown
        found = [(file, pins) for file, pins in self._pins if pins.lookup(name)]
        if found:
            self._system_host_keys = _under(shown, name, found[0][1])
        try:
            super().connect(hostname, port, **kwargs)
        except BadHostKeyException as bad:
            raise ChangedHostKey(name, bad.key, found[0][0]) from bad


def _under(shown: str, name: str, pins: HostKeys) -> HostKeys:
    """The pins of `name` as pins of what paramiko will look up: one of each kind."""
    kinds: dict[str, list[paramiko.PKey]] = {}
    for entry in getattr(pins.lookup(name), "_entries", ()):
        kinds.setdefault(entry.key.get_name(), []).append(entry.key)
    moved = HostKeys()
    for kind, keys in kinds.items():
        moved.add(shown, kind, keys[0] if len(keys) == 1 else _AnyOf(keys))  # type: ignore[arg-type]
    return moved


def alias(host: Host, inventory: Inventory) -> str | None:
    """The name that a host's pins stand under where its address may change: its own, for machines
    whose keys their cloud tells; None for all others, whose address it is."""
    told = host.host_key or host.host_key_source
    return host.name if told and inventory.kind.in_cloud else None


def read_pins(file: Path) -> HostKeys:
    """The keys of a known_hosts file that paramiko can compare; none when there is no file.

    Lines that it cannot read, such as those of certificate authorities, are passed over.
    """
    try:
        now = file.stat()
    except FileNotFoundError:
        return HostKeys()
    return _read(file, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=16)  # one look for all hosts of a command, as long as the file stays as it is
def _read(file: Path, _written: int, _size: int) -> HostKeys:
    pins = HostKeys()
    for line in map(str.strip, file.read_text(errors="replace").splitlines()):
        with contextlib.suppress(Exception):  # it raises whatever its decoders raise
            entry = None if line.startswith(("#", "@")) else HostKeyEntry.from_line(line)
            if entry:
                pins._entries.append(entry)  # type: ignore[attr-defined]  # add() is quadratic
    return pins


def pin(connection: Connection, files: Sequence[Path], alias: str | None = None) -> None:
    """Replace Fabric's accept-anything policy on one connection; `alias` is what its pins stand
    under, if it is not the address."""
    connection.client = _Client(files, alias)


def fingerprint(key: paramiko.PKey) -> str:
    """SHA256:... as `ssh-keygen -l` prints it."""
    return str(key.fingerprint)
