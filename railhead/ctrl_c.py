"""Ctrl-C until a task begins: it ends the process. While modules are imported, KeyboardInterrupt
would be a traceback, or lost. This module imports almost nothing, so that it is loaded early."""

import os
import signal

INTERRUPTED = 130  # as in bootstrap/errors.py


def _end(*_: object) -> None:
    os._exit(INTERRUPTED)


def end_at_once() -> None:
    """End this process at Ctrl-C, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Raise KeyboardInterrupt again at Ctrl-C, after `end_at_once`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
