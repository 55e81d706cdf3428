"""A session with this computer, through sockets in place of SSH: same facts, same agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..console import log
from ..inventory.hosts import Host
from .login.process_channel import ProcessChannel
from .session import LOOP, Session

HERE = "here"  # its name as a host


class LocalSession(Session):
    """A session with a shell of this computer, later with the agent; its home is $HOME."""

    def __init__(self) -> None:
        log.event("here: sh   # reads the facts, then becomes the agent")
        self._use(Host(HERE, "localhost"), ProcessChannel(["sh", "-c", LOOP]), lambda: None)
        self.greet()


@contextmanager
def local_session() -> Iterator[LocalSession]:
    """An open session with this computer."""
    session = LocalSession()
    try:
        yield session
    finally:
        session.close()
