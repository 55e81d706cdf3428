"""The stacks of a rank, written by the rank itself when it gets a signal.

`faulthandler` writes them in the signal handler: without ptrace, and even while C code holds the
GIL. A stopped process answers when it continues. The text goes to a file in memory, which the
collector (collect.py) reads through /proc.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import time
from collections.abc import Mapping

NAME = "railhead-stacks"  # of the file in memory
HEAD = b"%d %d\n"  # its first line: the pid, and the number of its descriptor
SIGNAL = 44  # a real-time signal, which hardly any program uses; many use SIGUSR1 and 2
LIMIT = 200_000  # bytes of the stacks of one rank
ANSWER = 2.0  # seconds; a process that runs writes its stacks in milliseconds
PAUSE = 0.05  # seconds between two reads of the files


def register() -> None:
    """Make this process write its stacks at SIGNAL; does nothing without faulthandler or memory."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        memory = os.memfd_create(NAME)
        file = os.open(f"/proc/self/fd/{memory}", os.O_WRONLY | os.O_APPEND)
        os.close(memory)
        os.set_inheritable(file, False)
        os.write(file, HEAD % (os.getpid(), file))
        faulthandler.register(SIGNAL, file=file, all_threads=True)


def file_of(pid: int) -> str:
    """The path of a process's file; "" if the process has closed it, or does not handle the signal.
    If a program closes all its files, the descriptor may belong to another file: the handler would
    write into that one."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as status:
        handled = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status.read(), re.MULTILINE)
        if not handled or not int(handled[1], 16) >> (SIGNAL - 1) & 1:
            return ""
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            with contextlib.suppress(OSError):  # closed meanwhile
                if NAME in os.readlink(path):
                    with open(path, "rb") as file:
                        return path if file.readline(64) == HEAD % (pid, int(number)) else ""
    return ""


def request(pid: int) -> str:
    """Ask a process for its stacks; returns the path for `answers`, "" if it cannot write them."""
    path = file_of(pid)
    if path:
        with contextlib.suppress(OSError):
            with open(path, "rb+") as file:
                file.truncate(len(file.readline(64)))
            os.kill(pid, SIGNAL)
            return path
    return ""


def answers(paths: Mapping[int, str]) -> dict[int, str]:
    """The stacks that processes have written to these files; "" for one that writes none in time. A
    text is complete when it has not changed for a moment."""
    texts, missing, until = dict.fromkeys(paths, ""), dict(paths), time.monotonic() + ANSWER
    while missing and time.monotonic() < until:
        time.sleep(PAUSE)
        for number, path in list(missing.items()):
            before, texts[number] = texts[number], _text(path)
            if texts[number] and texts[number] == before:
                del missing[number]
    return texts


def _text(path: str) -> str:
    """What a process has written after the first line."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.readline(64)
        return file.read(LIMIT).decode(errors="replace")
    return ""
