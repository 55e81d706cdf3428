"""Several calls to Google in one request, and their responses from one response. Pure.

https://cloud.google.com/storage/docs/batch: at most 100 calls; responses are in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesParser, Parser
from typing import Any

from railhead.documents.lazy import dataclass

MAX_CALLS = 100
BOUNDARY = "railhead-batch"
CONTENT_TYPE = f"multipart/mixed; boundary={BOUNDARY}"


@dataclass(frozen=True)
class Outcome:
    """The HTTP status of a call, and its JSON."""

    status: int
    document: Any


def encode(calls: Sequence[tuple[str, str]]) -> bytes:
    """The body of a batch request; each call is a method and a path, without a body."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
        f"{method} {path} HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n"
        for number, (method, path) in enumerate(calls)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def decode(content_type: str, body: bytes) -> list[Outcome]:
    """The outcome of each call, in order; ValueError when it is not a batch response."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + body).get_payload()
    if not isinstance(parts, list):
        raise ValueError("not in several parts")
    return [_response(part) for part in parts if isinstance(part, Message)]


def _response(part: Message) -> Outcome:
    """One part: `HTTP/1.1 403 Forbidden`, headers, an empty line, and perhaps a body."""
    status, _, rest = str(part.get_payload()).partition("\n")
    parts = status.split()
    if len(parts) < 2 or not parts[1].isdigit():
        raise ValueError(f"{status!r} is not a status line")
    text = str(Parser().parsestr(rest).get_payload()).strip()
    try:
        document = json.loads(text) if text else {}
    except ValueError:
        document = {"error": {"message": text[:200]}}
    return Outcome(int(parts[1]), document)
