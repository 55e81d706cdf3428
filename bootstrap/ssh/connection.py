"""What a session needs of the connection to its host."""

from __future__ import annotations

from typing import Any, Protocol

import paramiko

OPEN_SECONDS = 10


class Connection(Protocol):
    """An open connection to a host, whose key was verified."""

    host_key: paramiko.PKey
    transport: Any

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""

    def open_session(self) -> Any:
        """A channel for one command."""

    def close(self) -> None:
        """Close the connection, and those to the jump hosts."""
