"""A channel to a host in which each operation has bounds: a host may be silent, or send without
end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from paramiko.ssh_exception import SSHException

from railhead.documents.agent.request import QUICK, Bounds

from ..console import interrupts
from ..console.output import TransferReporter
from ..console.text import size
from ..inventory.hosts import Host
from .connection import ConnectionLost, Unresponsive

T = TypeVar("T")
PIECE = 1 << 18  # bytes; for each packet, paramiko copies what remains in its buffer


class BoundedChannel:
    """Sends and receives within the bounds of the current operation."""

    def __init__(self, host: Host, channel: Any) -> None:
        self.host, self._channel = host, channel
        self._data = bytearray()  # received, not read yet
        self._bounds, self._until, self._end = QUICK, math.inf, math.inf
        self.sent = self.received = self._before = 0  # bytes; received before the operation

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
    def operation(
        self, bounds: Bounds, *, silence: float | None = None, bytes: float = 0
    ) -> Iterator[None]:
        """One operation within its bounds; `silence` replaces theirs, `bytes` are added.

        Raises:
            Unresponsive: it did not keep them.
        """
        seconds = max(bounds.seconds, silence or 0)
        self._bounds = Bounds(silence or bounds.silence, seconds, bounds.bytes + bytes)
        begun, self._before = time.monotonic(), self.received
        self._until = min(begun + seconds, self._end)
        try:
            yield
        except TimeoutError:
            raise self._unresponsive(begun) from None
        except KeyboardInterrupt as end:
            interrupts.name_awaited(end, [self.host.name])
            raise

    def _unresponsive(self, begun: float) -> Unresponsive:
        self.close()
        if self.received - self._before > self._bounds.bytes:
            what = f"has sent more than {size(self._bounds.bytes)} in one answer"
        elif time.monotonic() >= self._until:
            seconds = self._until - begun  # 0 if `within` has no time left
            limit = f"{seconds:.0f} s" if seconds >= 1 else "the time of this command"
            what = f"has not completed its answer within {limit}"
        else:
            what = f"has been silent for {self._bounds.silence:.0f} s"
        return Unresponsive(f"{self.host} {what}")

    def _within_bounds(self, step: Callable[[], T]) -> T:
        """Send or receive once; TimeoutError when no time is left."""
        remaining = min(self._bounds.silence, self._until - time.monotonic())
        while remaining > 0:
            seconds = min(interrupts.NOTICE_SECONDS, remaining)
            self._channel.settimeout(seconds)
            with contextlib.suppress(TimeoutError):
                return step()
            remaining -= seconds
        raise TimeoutError

    def send(self, data: bytes, on_sent: TransferReporter | None = None) -> None:
        """Send all data; `on_sent` gets the bytes sent so far, and in total."""
        try:
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                while piece:
                    count = self._within_bounds(partial(self._channel.send, piece))
                    if not count:
                        raise self.lost()
                    piece, self.sent = piece[count:], self.sent + count
                if on_sent:
                    on_sent(min(start + PIECE, len(data)), len(data))
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

    def read(self, most: int) -> bytes:
        """Up to `most` bytes; b"" at the end of the channel."""
        if not self._data:
            self._receive()
        return self._take(most)

    def _take(self, count: int) -> bytes:
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    def _receive(self) -> int:
        """Wait for bytes; returns their number, 0 at the end of the channel."""
        try:
            data = self._within_bounds(lambda: self._channel.recv(PIECE))
        except TimeoutError:
            raise
        except OSError:
            return 0
        self._data += data
        self.received += len(data)
        if self.received - self._before > self._bounds.bytes:
            raise TimeoutError
        return len(data)

    def lost(self, printed: bytes = b"") -> ConnectionLost:
        """The error for a channel that closed, with what the host printed, and what it wrote to
        standard error."""
        stderr = b""
        with contextlib.suppress(Exception):
            if self._channel.recv_stderr_ready():
                stderr = self._channel.recv_stderr(4096)
        detail = (printed + stderr).decode(errors="replace").strip()[-600:]
        return ConnectionLost(
            f"the connection to {self.host} broke" + (f": {detail}" if detail else "")
        )

    def close(self) -> None:
        """Close the channel."""
        with contextlib.suppress(Exception):
            self._channel.close()
