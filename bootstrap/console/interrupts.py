"""Ctrl-C: the hosts that were waited for, and where `fab` has to ignore it.

A script starts `fab ... &` with SIGINT ignored. Programs that are started here would inherit that,
and could not be ended by SIGINT. They get the default back, in a session of their own: a Ctrl-C in
the script's terminal reaches neither `fab` nor them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable


def _ignored(*_: object) -> None:
    """A handler; unlike SIG_IGN, it is not inherited."""


def not_inherited() -> None:
    """Go on ignoring SIGINT, if it is ignored, in a way that programs do not inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _ignored)


def process_options() -> dict[str, bool]:
    """Options of subprocess for each program that is started here."""
    return {"start_new_session": True} if signal.getsignal(signal.SIGINT) is _ignored else {}


def name_awaited(end: KeyboardInterrupt, hosts: Iterable[str]) -> None:
    """Record in a Ctrl-C the hosts that were waited for; the first record stays."""
    end.args = end.args or tuple(hosts)
