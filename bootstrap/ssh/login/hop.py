"""One sshd on the way to a host."""

from __future__ import annotations

import threading

from railhead.documents.lazy import dataclass

from ..host_keys import Pins
from .ssh_config import HostConfig

CONNECT_SECONDS = 10
MAX_LOGINS = 8  # concurrent logins per sshd; from 10 on, sshd drops some (MaxStartups)
LOGIN_TRIES = 5


@dataclass(frozen=True)
class Hop:
    """How to reach it, its pinned host keys, and how to log in."""

    config: HostConfig
    pins: Pins
    key_file: str | None = None


_slots: dict[tuple[str, int], threading.Semaphore] = {}
_slots_lock = threading.Lock()


def login_slots(config: HostConfig) -> threading.Semaphore:
    """The semaphore of one sshd: at most MAX_LOGINS unfinished logins at once."""
    with _slots_lock:
        return _slots.setdefault((config.host, config.port), threading.Semaphore(MAX_LOGINS))
