"""The agent's end of the channel: it reads requests and writes replies.

One request is one JSON line; `tree` is followed by a payload. Replies are JSON lines: any number of
{"event": ...}, then {"ok": ...} or {"error": ...}.

While the agent waits for input it sends an empty line every ALIVE seconds: sshd notices a broken
network only when it sends something. It then closes the channel, and the agent ends. During an
operation no such lines are sent, because the other side limits the operation's silence.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from railhead.documents.agent.request import Chunk, Failure, Hello, Request
from railhead.documents.codec import decode, encode

from ..base.full_disk import lacks_inodes

ALIVE = 60.0  # seconds
OUT = sys.stdout.buffer
WRITING = threading.Lock()
WAITING = threading.Event()


class Input:
    """Requests and their payloads, from standard input."""

    def readline(self) -> bytes:
        """The next line; b"" at the end."""
        return self._waiting(sys.stdin.buffer.readline)

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end."""
        return self._waiting(lambda: sys.stdin.buffer.read(size))

    def _waiting(self, read: Callable[[], bytes]) -> bytes:
        """Read; meanwhile, empty lines are sent."""
        WAITING.set()
        try:
            return read()
        finally:
            WAITING.clear()


IN = Input()
Operation = tuple[type[Request[Any, Any]], Callable[[Any], Any]]


def operations(*those: Operation) -> dict[str, Operation]:
    """Operations by name."""
    return {kind.op: (kind, work) for kind, work in those}


def send_message(data: bytes = b"", **message: Any) -> None:
    """Send one message, and `data` after its line; thread-safe."""
    with WRITING:
        OUT.write(json.dumps(message).encode() + b"\n" + data)
        OUT.flush()


def send_event(event: Any) -> None:
    """Send one event of an operation."""
    send_message(event=encode(event))


class Chunks:
    """A file-like object: each write sends an event with the length, then the bytes."""

    def write(self, data: bytes) -> int:
        """Send one piece; the other side refuses an empty one."""
        if not data:
            return 0
        send_message(data, event=encode(Chunk(len(data))))
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


def serve(operation: Callable[[str], Operation]) -> None:
    """Handle requests, one after the other, until the channel is closed."""
    send_event(Hello(1, sys.version.split()[0]))
    threading.Thread(target=keep_alive, args=(ALIVE,), daemon=True).start()
    for line in iter(IN.readline, b""):
        answer(operation, json.loads(line))


def answer(operation: Callable[[str], Operation], request: dict[str, Any]) -> None:
    """Handle one request. A failure is also a reply; for OSError it has the errno's name."""
    try:
        kind, work = operation(request.pop("op"))
        result = encode(work(decode(kind, request, what=kind.op, unknown_keys=False)))
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        place = error.filename if isinstance(error.filename, str) else os.path.expanduser("~")
        inodes = name == "ENOSPC" and lacks_inodes(os.path.dirname(place))
        send_message(error=encode(Failure(name, str(error), inodes)))
    except Exception as error:
        send_message(error=encode(Failure("", f"{type(error).__name__}: {error}")))
    else:
        send_message(ok=result)
