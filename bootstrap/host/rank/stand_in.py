"""The process that mpirun has started, if the spare of this host forks the rank (see spare.py).

It gives the rank its variables, folder and streams, forwards signals, and ends as the rank ends. If
there is no spare, or it does not answer in time, this process becomes the rank itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import struct
import time
from typing import TYPE_CHECKING

from railhead.documents.runs.run import RunDocument

if TYPE_CHECKING:
    from socket import socket as Socket

ANSWER = 3.0  # seconds
GO = b"!"  # to the spare: the rank may begin
# An abstract socket: the files of a run are removed between its attempts. Any user may use its
# name, so each side checks the user of the other.
NAME = "railhead-spare-{run}-{host}"
NONE = "spare-{host}.none"  # in the run's folder: the program changes what its imports depend on
SOCKETS = "/proc/net/unix"
PASSED = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "CONT")  # signals for the rank
STREAMS = (0, 1, 2)


def socket_name(run: RunDocument, host: int) -> str:
    """The name of the socket at which the spare of a host answers."""
    return NAME.format(run=run.run_id, host=host)


def let_be_none(folder: str, host: int) -> None:
    """Give this host no spare: the program changes what its imports depend on."""
    with contextlib.suppress(OSError), open(os.path.join(folder, NONE.format(host=host)), "w"):
        pass


def is_there(name: str) -> bool:
    """Whether a process listens at this socket."""
    with contextlib.suppress(OSError), open(SOCKETS, errors="replace") as file:
        return any(line.rstrip("\n").endswith(f" @{name}") for line in file)
    return False


def outcome(run: RunDocument, rank: int) -> int | None:
    """Let the spare fork the rank, wait for it, and return its exit code; None: no spare did."""
    name = socket_name(run, run.host_of(rank))
    if not is_there(name):
        return None
    import socket

    from ..base import process_text

    with socket.socket(socket.AF_UNIX) as spare:
        try:
            pid = _forked(spare, name)
        except (OSError, ValueError):
            return None
        process_text.show_command("rank.rank", "rank.wait")
        return _ended(_status(spare, pid))


def is_ours(other: Socket) -> bool:
    """Whether the peer is a process of this user."""
    import socket

    _, user, _ = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.geteuid())


def _forked(spare: Socket, name: str) -> int:
    """Let the spare fork a rank, and start the rank; returns its pid. OSError, ValueError: it did
    not do so in time, and never will."""
    import socket

    mask = os.umask(0o077)
    os.umask(mask)
    request = {"env": dict(os.environ), "cwd": os.getcwd(), "mask": mask, "parent": os.getppid()}
    data = json.dumps(request).encode() + b"\n"
    spare.settimeout(ANSWER)
    spare.connect(f"\0{name}")
    if not is_ours(spare):
        raise ValueError(name)
    spare.sendall(data[socket.send_fds(spare, [data], STREAMS) :])
    pid = int(spare.recv(32))
    for number in PASSED:
        signal.signal(getattr(signal, f"SIG{number}"), lambda sign, _: _pass(pid, sign))
    spare.sendall(GO)
    return pid


def _pass(pid: int, sign: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, sign)


def _status(spare: Socket, pid: int) -> int:
    """Wait for the rank's end; returns its status, as `waitpid` does. If the process that waits for
    it is killed, nobody knows the status: it counts as a failure."""
    spare.settimeout(None)
    with contextlib.suppress(OSError, ValueError):
        return int(spare.recv(32))
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.05)
    return 1 << 8


def _ended(status: int) -> int:
    """The exit code of a status; if a signal killed the rank, this process kills itself with it,
    too."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank has left a core dump
        with contextlib.suppress(OSError, ValueError):  # KILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code & 0xFF
