"""The agent's end of the channel: requests come in, answers and the bytes between them go out.

One request is one JSON line; `tree` is followed by a payload. Answers are JSON lines: any number
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


def say(**answer: Any) -> None:
    """Send one answer; any thread may."""
    with WRITING:
        OUT.write(json.dumps(answer).encode() + b"\n")
        OUT.flush()


class Chunks:
    """A file to write to: each piece is an event that tells its length, then the bytes."""

    def write(self, data: bytes) -> int:
        """Send one piece."""
        with WRITING:
            OUT.write(json.dumps({"event": {"chunk": len(data)}}).encode() + b"\n")
            OUT.write(data)
            OUT.flush()
        return len(data)


def serve(ops: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests, one after the other, until the other side closes the channel."""
    say(event={"agent": 1, "python": sys.version.split()[0]})
    for line in iter(IN.readline, b""):
        answer(ops, json.loads(line))


def answer(ops: Mapping[str, Callable[..., Any]], request: dict[str, Any]) -> None:
    """Do one request. What goes wrong is the answer too, with the name of an OSError's number."""
    try:
        done = ops[request.pop("op")](**request)
    except OSError as error:
        say(error={"errno": errno.errorcode.get(error.errno or 0, ""), "text": str(error)})
    except Exception as error:
        say(error={"errno": "", "text": f"{type(error).__name__}: {error}"})
    else:
        say(ok=done)
