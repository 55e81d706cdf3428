"""The agent's end of the channel: it reads requests and writes replies.

One request is one JSON line; `tree` is followed by a payload. Replies are JSON lines: any number
of {"event": ...}, then {"ok": ...} or {"error": ...}. Python 3.10 standard library only.
"""

from __future__ import annotations

import errno
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

IN = sys.stdin.buffer
OUT = sys.stdout.buffer
WRITING = threading.Lock()


def send_message(**message: Any) -> None:
    """Send one message; thread-safe."""
    with WRITING:
        OUT.write(json.dumps(message).encode() + b"\n")
        OUT.flush()


class Chunks:
    """A file-like object: each write sends an event with the length, then the bytes."""

    def write(self, data: bytes) -> int:
        """Send one piece."""
        with WRITING:
            OUT.write(json.dumps({"event": {"chunk": len(data)}}).encode() + b"\n")
            OUT.write(data)
            OUT.flush()
        return len(data)


def serve(ops: Mapping[str, Callable[..., Any]]) -> None:
    """Handle requests, one after the other, until the other side closes the channel."""
    send_message(event={"agent": 1, "python": sys.version.split()[0]})
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
        send_message(ok=result)
