"""Changes what /proc shows of this process: its command line and its initial environment.

The kernel reads both from the memory of the process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

COMMAND, VARIABLES = 45, 47  # fields of /proc/self/stat after the name: the start; its end is next
ROOM = "ROOM_OF_RAILHEAD"  # a variable that others can overwrite
LONGEST = 4096  # bytes


def room() -> dict[str, str]:
    """A variable that gives a new process room to show other variables."""
    return {ROOM: "-" * LONGEST}


def show_command(old: str, new: str) -> None:
    """Show another argument in place of one that is at least as long."""
    _replace(COMMAND, old.encode() + b"\0", new.encode())


def show_variables(variables: Mapping[str, str]) -> None:
    """Show these variables, as far as there is room."""
    text = b"".join(f"{name}={value}\0".encode() for name, value in variables.items())
    _replace(VARIABLES, f"{ROOM}={'-' * LONGEST}".encode(), text[: LONGEST + len(ROOM)])


def name() -> bytes:
    """The name of this process."""
    with open("/proc/self/comm", "rb") as file:
        return file.read().rstrip(b"\n")


def _replace(field: int, old: bytes, new: bytes) -> None:
    """Overwrite `old` in the memory that /proc shows; does nothing if it is not there."""
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b") ")[2].split()[field : field + 2])
    offset = ctypes.string_at(begin, end - begin).find(old)
    if offset >= 0:
        ctypes.memmove(begin + offset, new.ljust(len(old), b"\0"), len(old))
