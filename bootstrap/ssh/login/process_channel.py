"""A program at the other end of a pair of sockets, in place of an SSH channel."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import weakref
from collections.abc import Sequence

from ..traffic import HostSocket, Traffic

END_SECONDS = 2.0  # in which a program ends that has closed its output


class ProcessChannel:
    """What the program prints is received, and what is sent is its input. `errors`: its standard
    error is kept; otherwise it is ours."""

    def __init__(
        self, argv: Sequence[str], *, errors: bool = False, traffic: Traffic | None = None
    ) -> None:
        ours, theirs = socket.socketpair()
        self.socket = HostSocket(ours, traffic) if traffic else ours
        # Another thread may be about to wait for this descriptor. Closed at once, its number could
        # be that of the next session, and the thread would wait for ever.
        weakref.finalize(self, self.socket.close)
        self.settimeout, self.send = self.socket.settimeout, self.socket.send
        self.recv, self.sendall = self.socket.recv, self.socket.sendall
        self.shutdown = self.socket.shutdown
        with theirs:
            self.process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE if errors else None,
                start_new_session=True,  # Ctrl-C is for us
            )

    def recv_stderr_ready(self) -> bool:
        """Whether its standard error is kept; the program has closed its output."""
        return self.process.stderr is not None

    def recv_stderr(self, most: int) -> bytes:
        """What it has written to standard error, up to `most` bytes."""
        assert self.process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        os.set_blocking(self.process.stderr.fileno(), False)
        return self.process.stderr.read(most) or b""

    def close(self) -> None:
        """End the program; what it has started continues."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):  # it is closed
            self.socket.shutdown(socket.SHUT_RDWR)  # ends a read or write of another thread
