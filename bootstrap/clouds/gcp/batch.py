"""Several calls to Google in one request, and their answers out of one. Pure.

https://cloud.google.com/storage/docs/batch: at most 100 calls, answered in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesParser, Parser
from typing import Any

MOST = 100
BOUNDARY = "railhead-batch"
CONTENT_TYPE = f"multipart/mixed; boundary={BOUNDARY}"


def packed(calls: Sequence[tuple[str, str]]) -> bytes:
    """The body of a request with calls (`DELETE`, `/storage/v1/b/...`), none of which has one."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
        f"{method} {path} HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n"
        for number, (method, path) in enumerate(calls)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def unpacked(content_type: str, body: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Status and JSON of each call, in their order; ValueError when it is no such answer."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parts = BytesParser().parsebytes(head + body).get_payload()
    if not isinstance(parts, list):
        raise ValueError("not in several parts")
    return [_answer(part) for part in parts if isinstance(part, Message)]


def _answer(part: Message) -> tuple[int, dict[str, Any]]:
    """`HTTP/1.1 403 Forbidden`, headers, an empty line, and a body or none."""
    status, _, rest = str(part.get_payload()).lstrip().partition("\n")
    words = status.split()
    if len(words) < 2 or not words[1].isdigit():
        raise ValueError(f"{status!r} is no status")
    text = str(Parser().parsestr(rest).get_payload()).strip()
    try:
        said = json.loads(text) if text else {}
    except ValueError:
        said = {"error": {"message": text[:200]}}
    return int(words[1]), said
