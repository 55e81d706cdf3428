"""Ctrl-C: the hosts that a command was waiting for, and where `fab` has to ignore it.

A script starts `fab ... &` with SIGINT ignored. Programs that `fab` starts would inherit that, and
SIGINT could not end them. They get the default back, in their own session: Ctrl-C in the script's
terminal reaches neither `fab` nor them.

Ctrl-C just before a wait begins is noticed when the wait ends: a wait is repeated in short ones.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

NOTICE_SECONDS = 1.0  # the longest of these waits


def _ignored(*_: object) -> None:
    """A handler; unlike SIG_IGN, it is not inherited."""


def not_inherited() -> None:
    """If SIGINT is ignored, keep ignoring it in a way that programs do not inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _ignored)


def process_options() -> dict[str, bool]:
    """Options of subprocess for every program that is started here."""
    return {"start_new_session": True} if signal.getsignal(signal.SIGINT) is _ignored else {}


def name_awaited(end: KeyboardInterrupt, hosts: Iterable[str]) -> None:
    """Record in a KeyboardInterrupt the hosts that were waited for; an earlier record stays."""
    end.args = end.args or tuple(hosts)
