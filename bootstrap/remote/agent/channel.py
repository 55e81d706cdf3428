"""The agent's end of the channel: it reads requests and writes replies.

One request is one JSON line; `tree` is followed by a payload. Replies are JSON lines: any number
of {"event": ...}, then {"ok": ...} or {"error": ...}. Python 3.10 standard library only.

While the agent waits for input it sends an empty line every ALIVE seconds: sshd notices a broken
network only when it has something to send. Then it closes the channel, and the agent ends. During
an operation nothing is added, because the other side limits its silence.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from railhead.documents.codec import encode

ALIVE = 60.0  # seconds
OUT = sys.stdout.buffer
WRITING = threading.Lock()
WAITING = threading.Event()


class Input:
    """Requests and their payloads, from standard input."""

    def readline(self) -> bytes:
        """The next line; b"" at the end."""
        with self.waiting():
            return sys.stdin.buffer.readline()

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end."""
        with self.waiting():
            return sys.stdin.buffer.read(size)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Empty lines are sent meanwhile."""
        WAITING.set()
        try:
            yield
        finally:
            WAITING.clear()


IN = Input()


def send_message(**message: Any) -> None:
    """Send one message; thread-safe."""
    with WRITING:
        OUT.write(json.dumps(message).encode() + b"\n")
        OUT.flush()


class Chunks:
    """A file-like object: each write sends an event with the length, then the bytes."""

    def write(self, data: bytes) -> int:
        """Send one piece; the other side refuses an empty one."""
        if not data:
            return 0
        with WRITING:
            OUT.write(json.dumps({"event": {"chunk": len(data)}}).encode() + b"\n")
            OUT.write(data)
            OUT.flush()
        return len(data)


def keep_alive(seconds: float) -> None:
    """Send an empty line every `seconds` while the agent waits, until the channel is closed."""
    with contextlib.suppress(OSError):
        while True:
            time.sleep(seconds)
            WAITING.wait()
            with WRITING:
                OUT.write(b"\n")
                OUT.flush()


def serve(ops: Mapping[str, Callable[..., Any]]) -> None:
    """Handle requests, one after the other, until the channel is closed."""
    send_message(event={"agent": 1, "python": sys.version.split()[0]})
    threading.Thread(target=keep_alive, args=(ALIVE,), daemon=True).start()
    for line in iter(IN.readline, b""):
        answer(ops, json.loads(line))


def answer(ops: Mapping[str, Callable[..., Any]], request: dict[str, Any]) -> None:
    """Handle one request. A failure is also a reply; for OSError it has the errno's name."""
    try:
        result = ops[request.pop("op")](**request)
    except OSError as error:
        send_message(error={"errno": errno.errorcode.get(error.errno or 0, ""), "text": str(error)})
    except Exception as error:
        send_message(error={"errno": "", "text": f"{type(error).__name__}: {error}"})
    else:
        send_message(ok=encode(result) if is_dataclass(result) else result)
