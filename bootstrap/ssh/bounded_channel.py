"""A channel with a host in which each operation has bounds: a host may be silent, or never end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paramiko.ssh_exception import SSHException

from bootstrap.console import interrupts
from bootstrap.console.output import ByteReporter
from bootstrap.errors import RailheadError
from bootstrap.inventory.hosts import Host

PIECE = 1 << 18  # bytes; paramiko copies the rest of its buffer for each packet


@dataclass(frozen=True)
class Bounds:
    """Of one operation, in seconds: the longest silence, and the whole time."""

    silence: float
    seconds: float


QUICK = Bounds(60, 1800)  # no work on many files
WORK = Bounds(600, 12 * 3600)
LONG = Bounds(3600, 72 * 3600)  # compiles, installs, receives 100 GB
BOUNDS = {
    "open": Bounds(60, 60),  # the shell's greeting, the facts, the start of the agent
    "sh": Bounds(600, 12 * 3600),
    **dict.fromkeys(("run", "tree", "place_folder", "get", "collect"), WORK),
    **dict.fromkeys(("remove", "data_state", "paths_state"), WORK),
    "receive_data": LONG,
    "follow": Bounds(120, math.inf),  # an event comes every 10 s, also where nothing changes
}  # by operation; QUICK for all others


class ConnectionLost(RailheadError):
    """The channel closed before the result came; what the host did is unknown."""


class Unresponsive(ConnectionLost):
    """The host is connected, and an operation did not keep its bounds. The channel is closed."""


class BoundedChannel:
    """Sends and receives within the bounds of the current operation."""

    def __init__(self, host: Host, channel: Any) -> None:
        self.host, self._channel = host, channel
        self._data = bytearray()  # received, not read yet
        self._bounds, self._until, self._end = QUICK, math.inf, math.inf
        self.sent = self.received = 0  # bytes

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """All operations inside take at most `seconds` together."""
        outer = self._end
        self._end = min(outer, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._end = outer

    @contextlib.contextmanager
    def operation(self, name: str, silence: float | None = None) -> Iterator[None]:
        """One operation within its BOUNDS, with another `silence` if it is given.

        Raises:
            Unresponsive: it did not keep its bounds.
        """
        bounds = BOUNDS.get(name, QUICK)
        if silence is not None:
            bounds = Bounds(silence, max(bounds.seconds, silence))
        self._bounds, begun = bounds, time.monotonic()
        self._until = min(begun + bounds.seconds, self._end)
        try:
            yield
        except TimeoutError:
            self.close()
            raise self._unresponsive(begun) from None
        except KeyboardInterrupt as end:
            interrupts.name_awaited(end, [self.host.name])
            raise

    def _unresponsive(self, begun: float) -> Unresponsive:
        if time.monotonic() < self._until:
            return Unresponsive(f"{self.host} has been silent for {self._bounds.silence:.0f} s")
        seconds = self._until - begun
        return Unresponsive(f"{self.host} answered, but not to the end within {seconds:.0f} s")

    def _limit_step(self) -> None:
        """Limit the next step; TimeoutError when the operation has no time left."""
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._channel.settimeout(min(self._bounds.silence, remaining))

    def send(self, data: bytes, on_sent: ByteReporter | None = None) -> None:
        """Send all of it; `on_sent` gets the bytes sent so far."""
        try:
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                while piece:
                    self._limit_step()
                    count = self._channel.send(piece)
                    if not count:
                        raise self.lost()
                    piece, self.sent = piece[count:], self.sent + count
                if on_sent:
                    on_sent(min(start + PIECE, len(data)))
        except TimeoutError:
            raise
        except (OSError, EOFError, SSHException) as error:
            raise self.lost() from error

    def readline(self, limit: int) -> bytes:
        """The next line, or `limit` bytes of a longer one; b"" at the end of the channel."""
        end, seen = self._data.find(b"\n"), 0
        while end < 0 and len(self._data) < limit:
            seen = len(self._data)
            if not self._receive():
                return b""
            end = self._data.find(b"\n", seen)
        return self._take(min(end + 1 or limit, limit))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end of the channel."""
        if not self._data:
            self._receive()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    def _receive(self) -> int:
        """Wait for bytes; returns their number, 0 at the end of the channel."""
        self._limit_step()
        try:
            data = self._channel.recv(PIECE)
        except TimeoutError:
            raise
        except OSError:
            return 0
        self._data += data
        self.received += len(data)
        return len(data)

    def lost(self) -> ConnectionLost:
        """The error for a channel that closed, with what the host wrote to standard error."""
        stderr = b""
        with contextlib.suppress(Exception):
            if self._channel.recv_stderr_ready():
                stderr = self._channel.recv_stderr(4096)
        detail = stderr.decode(errors="replace").strip()[-600:]
        return ConnectionLost(
            f"the connection to {self.host} broke" + (f": {detail}" if detail else "")
        )

    def close(self) -> None:
        """Close the channel."""
        with contextlib.suppress(Exception):
            self._channel.close()
