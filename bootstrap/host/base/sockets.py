"""The TCP sockets of a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator

ESTABLISHED, LISTENS = "01", "0A"  # states, in column 3


def rows_of(pid: int | str) -> Iterator[list[str]]:
    """The columns of each row of /proc/net/tcp and tcp6 for a socket of this process; none if it
    has ended or belongs to another user."""
    sockets, folder = set(), f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                sockets.add(os.readlink(f"{folder}/{name}"))
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as file:
            yield from rows_among(file, sockets)


def rows_among(table: Iterable[str], sockets: Collection[str]) -> Iterator[list[str]]:
    """The columns of each row of such a table for one of these sockets ("socket:[INODE]")."""
    for row in map(str.split, table):
        if len(row) > 9 and f"socket:[{row[9]}]" in sockets:
            yield row
