"""The only decoder of JSON from a host or a bucket: its numbers and its memory are bounded.

A number that is not finite, or is 2^63 or more, becomes None, which code that needs a number
refuses.

railhead.documents checks the keys of a document.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from railhead.documents.codec import decode

from .unpack import Hostile

T = TypeVar("T")
JsonObject = dict[str, Any]

# Commas, colons and brackets: 100,000 files with name, size and sha256 have 700,000.
MARKS = 1_000_000
OUTPUTS = 20_000_000  # the same in a model's answer: a hundred pictures of 224x224 in colour
LARGEST = float(2**63)
DIGITS = 20  # of the largest integer, with its sign


def decoded(text: str | bytes) -> Any:
    """The document.

    Raises:
        ValueError: it is not JSON, or has too many values (up to 100 bytes of memory each).
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if _marks(data) > MARKS and _marks(_without_strings(data)) > MARKS:
        raise ValueError("too many values")
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=lambda _: None
        )
    except RecursionError:
        raise ValueError("too deep") from None


def parsed(kind: type[T], text: str | bytes, name: str) -> T:
    """The document in a text; `name` names it in the message of Hostile."""
    description = f"{name} that is not valid"
    try:
        return decode(kind, decoded(text), what=description, error=Hostile)
    except ValueError:
        raise Hostile(description) from None


def json_object(text: str | bytes, description: str) -> JsonObject:
    """A JSON object; Hostile with `description` if the text is not one."""
    try:
        document = decoded(text)
    except ValueError:
        raise Hostile(description) from None
    if not isinstance(document, dict):
        raise Hostile(description)
    return document


def json_line(line: str) -> JsonObject:
    """A line of metrics.jsonl, in which NaN and large numbers are valid; {} if it is not an object,
    or has too many values."""
    try:
        return _with_nan(line, MARKS)
    except ValueError:
        return {}


def outputs(text: str, description: str) -> JsonObject:
    """The answer of a model, in which NaN and large numbers are valid; Hostile with `description`
    if it is not an object, or has too many values."""
    try:
        return _with_nan(text, OUTPUTS)
    except ValueError as error:
        raise Hostile(f"{description}: {error}") from None


def _with_nan(text: str, most: int) -> JsonObject:
    """The object in a text with at most `most` separators; ValueError if it is not one."""
    if _marks(text.encode(errors="surrogatepass")) > most:
        raise ValueError("too many values")
    try:
        document = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def _integer(digits: str) -> int | None:
    number = int(digits) if len(digits) <= DIGITS else LARGEST
    return int(number) if abs(number) < LARGEST else None


def _number(digits: str) -> float | None:
    number = float(digits)
    return number if abs(number) < LARGEST else None


def _marks(data: bytes) -> int:
    return sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))


def _without_strings(data: bytes) -> bytes:
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * MARKS:
        return plain
    return b"".join(plain.split(b'"')[::2])
