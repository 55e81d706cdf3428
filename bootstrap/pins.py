"""Whom we believe to be which machine: host keys are pinned, and never accepted unseen.

Fabric's own policy accepts any key, a swapped one too; it is replaced on every hop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import paramiko
from fabric import Connection
from paramiko.ssh_exception import SSHException


class UnknownHostKey(SSHException):
    """No pin for this host; `key` is what it showed."""

    def __init__(self, hostname: str, key: paramiko.PKey) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key


class _Pinned(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        raise UnknownHostKey(hostname, key)


def pin(connection: Connection, files: Sequence[Path]) -> None:
    """Replace Fabric's accept-anything policy, on the connection and on each of its jumps."""
    hop: Any = connection
    while isinstance(hop, Connection):
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_Pinned())
        for known in files:
            with contextlib.suppress(FileNotFoundError):
                client.load_system_host_keys(str(known))
        hop.client = client
        hop = hop.gateway


def fingerprint(key: paramiko.PKey) -> str:
    """SHA256:... as `ssh-keygen -l` prints it."""
    return str(key.fingerprint)
