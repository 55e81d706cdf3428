"""The TCP sockets of a process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator

ESTABLISHED, LISTENS = "01", "0A"  # states, in column 3


def rows_of(pid: int | str) -> Iterator[list[str]]:
    """The columns of each row of /proc/net/tcp and tcp6 that is a socket of this process; none of
    a process that has ended, or that this user may not look into."""
    sockets, folder = set(), f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                sockets.add(os.readlink(f"{folder}/{name}"))
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}") as file:
            yield from rows_among(file, sockets)


def rows_among(table: Iterable[str], sockets: Collection[str]) -> Iterator[list[str]]:
    """The columns of each row of such a table that is one of these sockets ("socket:[INODE]")."""
    for row in map(str.split, table):
        if len(row) > 9 and f"socket:[{row[9]}]" in sockets:
            yield row
