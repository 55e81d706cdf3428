"""Ends a server when its standard input closes, so that it does not outlive its parent process."""

from __future__ import annotations

import os
import threading


def end_with_parent() -> None:
    """End this process when its standard input closes."""
    threading.Thread(target=wait_and_end, daemon=True).start()


def wait_and_end() -> None:
    """Read standard input to its end."""
    while os.read(0, 1 << 16):
        pass
    os._exit(0)
