"""A session with this machine, through pipes in place of an SSH channel: same facts, same agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bootstrap.console import log
from bootstrap.inventory.hosts import Host
from bootstrap.ssh.session import LOOP, Session

HERE = "here"  # its name as a host


class LocalSession(Session):
    """A shell of this machine, then the agent in it, at home in $HOME."""

    def __init__(self) -> None:
        log.event("here: sh   # reads the facts, then becomes the agent")
        process = subprocess.Popen(
            ["sh", "-c", LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us
        )
        self._use(Host(HERE, "localhost"), _Pipes(process), process.stdout, lambda: None)


class _Pipes:
    """What a session needs of a channel."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def sendall(self, data: bytes) -> None:
        """Write to the shell's standard input."""
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def settimeout(self, seconds: float | None) -> None:
        """A pipe of this machine needs no time limit."""

    def recv_stderr_ready(self) -> bool:
        """Its standard error is ours."""
        return False

    def close(self) -> None:
        """End the shell or the agent; what it has started goes on."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        self._process.wait()


@contextmanager
def local_session() -> Iterator[LocalSession]:
    """An open session with this machine."""
    session = LocalSession()
    try:
        yield session
    finally:
        session.close()
