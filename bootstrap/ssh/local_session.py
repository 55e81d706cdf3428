"""A session with this computer, through sockets in place of SSH: same facts, same agent."""

from __future__ import annotations

import socket
import subprocess
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from ..console import log
from ..inventory.hosts import Host
from .session import LOOP, Session

HERE = "here"  # its name as a host


class LocalSession(Session):
    """A shell of this computer, then the agent in it, at home in $HOME."""

    def __init__(self) -> None:
        log.event("here: sh   # reads the facts, then becomes the agent")
        self._use(Host(HERE, "localhost"), _Shell(), lambda: None)
        self.greet()


class _Shell:
    """A shell at the other end of a pair of sockets, in place of an SSH channel."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        # Another thread may be about to wait for this descriptor. Closed at once, its number could
        # be that of the next session, and the thread would wait for ever.
        weakref.finalize(self, self._socket.close)
        self.settimeout, self.send = self._socket.settimeout, self._socket.send
        self.recv = self._socket.recv
        with theirs:
            self._process = subprocess.Popen(
                ["sh", "-c", LOOP],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                start_new_session=True,  # Ctrl-C is for us
            )

    def recv_stderr_ready(self) -> bool:
        """Its standard error is ours."""
        return False

    def close(self) -> None:
        """End the shell or the agent; what it has started continues."""
        self._process.kill()
        self._process.wait()
        self._socket.shutdown(socket.SHUT_RDWR)  # ends a read or write of another thread


@contextmanager
def local_session() -> Iterator[LocalSession]:
    """An open session with this computer."""
    session = LocalSession()
    try:
        yield session
    finally:
        session.close()
