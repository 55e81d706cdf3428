"""Finds and ends the processes of one local host.

`python -I processes.py FOLDER` ends the host in that folder and prints the result as JSON. It is
the host's `stop` argv: the supervisor runs it inside the host, where HOME, the current folder and
PYTHONPATH differ, so it needs only its own absolute path and the standard library. It can end only
that sshd and the processes that were started through it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path

from railhead.documents.lazy import dataclass

MARK = "RAILHEAD_LOCAL"  # in the environment of every process of a local host: its folder
SIGNAL_SECONDS = 3.0  # seconds that a process gets to end, for each signal


@dataclass(frozen=True)
class Ended:
    """How many processes of a host ended, the pids of those that did not, and whether its port is
    closed."""

    ended: int
    left: tuple[int, ...]
    port_closed: bool


def argv(folder: Path) -> tuple[str, ...]:
    """The command that ends the host in this folder, from inside and from outside."""
    return (sys.executable, "-I", str(Path(__file__).resolve()), str(folder))


def sshd(folder: Path) -> int | None:
    """The pid of the host's sshd; None when that is not running."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / "sshd.pid").read_text())
        if _is_sshd(command_line(pid), folder):
            return pid
    return None


def _is_sshd(line: str, folder: Path) -> bool:
    """Whether a command line is that of the host's sshd, before or after it wrote its title."""
    first, place = line.partition(" ")[0], f"{folder}/sshd_config"
    title = "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in os.fsencode(place))
    is_its_config = any(f" -f {shown} " in line for shown in (place, title))
    return first.rstrip(":").endswith("sshd") and is_its_config


def command_line(pid: int) -> str:
    """The command line of a process; OSError when it is gone."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def of(folder: Path) -> list[int]:
    """The pids of the host's processes except this one: its sshd and all that it started. They have
    the mark, or a parent that has it. sshd overwrites its mark with its title, so it is found by
    its command line, even when its folder was removed."""
    mark = f"{MARK}={folder}".encode()
    ours, parents = set(), {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = _parent(entry)
            marked = mark in (entry / "environ").read_bytes().split(b"\0")
            if marked or _is_sshd(command_line(int(entry.name)), folder):
                ours.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sorted(ours - {os.getpid()})


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def end(folder: Path) -> Ended:
    """End the host's processes, then check that they are gone and its port is closed."""
    before = of(folder)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal(folder, sign)
    return Ended(len(before), tuple(of(folder)), _closed(folder))


def _signal(folder: Path, sign: signal.Signals) -> None:
    until = time.monotonic() + SIGNAL_SECONDS
    while (pids := of(folder)) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        time.sleep(0.05)


def _closed(folder: Path) -> bool:
    """Whether nothing listens any more at the address and port of the host's sshd."""
    with contextlib.suppress(FileNotFoundError):
        fields = (folder / "sshd_config").read_text().split()
        address, _, port = fields[fields.index("ListenAddress") + 1].rpartition(":")
        return free(address, int(port))
    return True


def free(address: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with contextlib.suppress(OSError), socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        return port != 0
    return False


def main(folder: Path) -> int:
    """End the host and print the result; 1 when a process is left or its port is open."""
    # Inside the host, this process must survive the end of its caller, session and terminal.
    for sign in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(sign, signal.SIG_IGN)
    result = end(folder)
    with contextlib.suppress(OSError):
        print(json.dumps({folder.name: asdict(result)}), flush=True)
    return 0 if result.port_closed and not result.left else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
