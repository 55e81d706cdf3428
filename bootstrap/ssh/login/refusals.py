"""Jump hosts that refuse us: after one refused connection, the others do not try.

From OpenSSH 9.8 on, sshd penalises the address of connections that do not log in: it then accepts
no connection for a while. Sixteen hosts behind one jump host with an unpinned key were enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from paramiko.ssh_exception import SSHException

from railhead.documents.lazy import dataclass

from .ssh_config import HostConfig

PENALTY = "Not allowed at this time"  # OpenSSH 10.0 sends it in place of the banner
WAIT_SECONDS = 60


class Penalised(SSHException):
    """An sshd accepts no connection from this address for a while; its text is sshd's message."""


@dataclass
class _Way:
    """The outcome of the first login to a jump host, for all connections through it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_open: bool = False
    error: Exception | None = None
    at: float = 0.0


_ways: dict[tuple[str, int, str], _Way] = {}
_ways_lock = threading.Lock()


@contextmanager
def one_first(
    config: HostConfig, begun: float, passes: Callable[[Exception, float], bool]
) -> Iterator[None]:
    """Log in to a jump host: one connection at a time, until a login has succeeded. If a login was
    refused after `begun`, this one raises the same error. `passes`: whether another try may succeed
    after an error that came after so many seconds."""
    with _ways_lock:
        way = _ways.setdefault((config.host, config.port, config.user), _Way())
    if way.is_open:
        yield
        return
    with way.lock:
        if way.error and way.at >= begun:
            raise way.error
        start = time.monotonic()
        try:
            yield
        except (OSError, EOFError, SSHException) as error:
            now = time.monotonic()
            if not passes(error, now - start):
                way.error, way.at = error, now
            raise
        way.is_open = True
