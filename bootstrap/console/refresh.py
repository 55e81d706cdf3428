"""Repeats what a command shows, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ..errors import HostsFailed, RailheadError, UsageError
from .output import print_lines, printing_with, shown_on

SECONDS, CLOUD_SECONDS = 5.0, 15.0  # between two times; with requests to a cloud
CLEAR = "\x1b[H\x1b[2J"  # the cursor to the corner, an empty screen


def refreshed(show: Callable[[], float]) -> None:
    """Show again and again, until Ctrl-C. In a terminal each time replaces the one before, when it
    is complete; elsewhere lines follow each other. An error is shown below the lines, and does not
    end it.

    Args:
        show: returns the seconds until the next time.

    Raises:
        UsageError: the first time, of what is wrong in the command.
    """
    seconds, is_first = SECONDS, True
    while True:
        begun = time.strftime("%H:%M:%S")
        lines: list[str] = []
        try:
            with printing_with(lines.append):
                seconds = show()
        except RailheadError as error:
            if is_first and isinstance(error, UsageError) and not isinstance(error, HostsFailed):
                print_lines(*lines)
                raise
            lines += str(error).splitlines()
        text = "\n".join(shown_on(sys.stdout, line) for line in [*lines, f"at {begun}"])
        print(f"{CLEAR if sys.stdout.isatty() else ''}{text}", flush=True)
        is_first = False
        time.sleep(seconds)
