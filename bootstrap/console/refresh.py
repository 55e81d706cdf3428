"""Repeats what a command shows, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..errors import HostsFailed, HostsNotReady
from .output import print_lines, printing_with, shown_on

SECONDS = 5.0  # between two times
CLEAR = "\x1b[H\x1b[2J"  # the cursor to the corner, an empty screen


def refreshed(show: Callable[[], None]) -> None:
    """Show again and again, until Ctrl-C. In a terminal each time replaces the one before, when it
    is complete; elsewhere lines follow each other. Hosts that do not answer do not end it."""
    while True:
        begun = time.strftime("%H:%M:%S")
        lines: list[str] = []
        with printing_with(lines.append):
            try:
                show()
            except (HostsFailed, HostsNotReady) as error:
                print_lines(*str(error).splitlines())
        text = "\n".join(shown_on(sys.stdout, line) for line in [*lines, f"at {begun}"])
        print(f"{CLEAR if sys.stdout.isatty() else ''}{text}", flush=True)
        time.sleep(SECONDS)
