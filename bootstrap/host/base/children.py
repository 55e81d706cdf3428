"""Sets up child processes of a run. Imports few modules, because other programs wait for those that
use it.
"""

from __future__ import annotations

import ctypes
import os
import signal

LIBC = ctypes.CDLL(None)
MARKS = ("RAILHEAD_RUN", "RAILHEAD_HOME")  # variables of the processes of a run


def unmarked() -> dict[str, str]:
    """The environment for a process that must survive the end of the run's processes."""
    return {name: text for name, text in os.environ.items() if name not in MARKS}


def set_name(name: bytes) -> None:
    """Set the name of this process."""
    LIBC.prctl(15, name)  # PR_SET_NAME


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """In the child: get this signal when the parent dies."""
    LIBC.prctl(1, number)  # PR_SET_PDEATHSIG
