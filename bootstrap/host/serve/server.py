"""Like serve.client, but for a server: it ends when its standard input closes, so that it does not
outlive its parent process.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from . import client


def end_with_parent() -> None:
    """End this process when its standard input closes."""
    threading.Thread(target=read_to_end, daemon=True).start()


def read_to_end() -> None:
    """Read standard input to its end; then end this process."""
    while os.read(0, 1 << 16):
        pass
    os._exit(0)


def main(*words: str) -> Any:
    """Run the server until its standard input closes."""
    end_with_parent()
    return client.main(*words)
