"""A channel to a local program over a socket pair, in place of an SSH channel."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import weakref
from collections.abc import Sequence

from ..traffic import HostSocket, Traffic

END_SECONDS = 2.0  # for a program to end after it has closed its output


class ProcessChannel:
    """Receives the program's output, and sends its input. `errors`: its standard error is kept;
    otherwise it goes to ours."""

    def __init__(
        self, argv: Sequence[str], *, errors: bool = False, traffic: Traffic | None = None
    ) -> None:
        ours, theirs = socket.socketpair()
        self.socket = HostSocket(ours, traffic) if traffic else ours
        # Closed only when unused: another thread may be about to wait for this descriptor, and the
        # next session could get its number; the thread would then wait for ever.
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
                start_new_session=True,  # Ctrl-C must not end it
            )

    def recv_stderr_ready(self) -> bool:
        """Whether its standard error is kept; called after the program has closed its output."""
        return self.process.stderr is not None

    def recv_stderr(self, most: int) -> bytes:
        """Up to `most` bytes of its standard error."""
        assert self.process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        os.set_blocking(self.process.stderr.fileno(), False)
        return self.process.stderr.read(most) or b""

    def close(self) -> None:
        """End the program, but not the processes that it has started."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):  # already closed
            self.socket.shutdown(socket.SHUT_RDWR)  # ends a read or write of another thread
