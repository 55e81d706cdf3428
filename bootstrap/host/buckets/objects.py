"""The operations on objects that each cloud's bucket has.

An upload is complete or does not exist: the cloud compares a hash before an object is visible.
Downloads are compared with the cloud's hash. `python -m training.data` and the training use obstore
instead, which (0.12) sends no hash for the cloud to compare, and removes no versions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from railhead.documents.lazy import dataclass

CHUNK = 1 << 20  # bytes of a download in memory at once
SILENCE = 30.0  # seconds without an answer, after which a request is repeated
LARGEST = 64 << 20  # bytes: the largest object that is read as a whole


class ChangedFile(Exception):
    """A file's content no longer has its hash."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} changed while it was uploaded")


class WriteInProgress(Exception):
    """Another request is writing the object, perhaps an earlier one of this host whose answer was
    lost. It is not known yet which one succeeds."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is written by another request at this moment")


class Objects(Protocol):
    """The objects of one bucket. Refusals raise the errors of the cloud's client. The lifecycle
    rules of a stack's bucket remove old versions of a short-lived object after a day."""

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes."""

    def write(self, key: str, data: bytes, *, short_lived: bool = False) -> None:
        """Create an object of some megabytes."""

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object of any size from a file; the object keeps the hash. ChangedFile: the
        file has another hash. OSError: it cannot be read."""


@dataclass(frozen=True)
class Stored:
    """An object as read: its content, and its version, which every write changes."""

    data: bytes
    version: str


class SharedObjects(Objects, Protocol):
    """Objects that several hosts may write. Of two simultaneous writes under the same condition,
    one succeeds; the other one gets None or WriteInProgress."""

    def look(self, key: str) -> Stored | None:
        """An object; None if there is none. ValueError: it has more than LARGEST bytes."""

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        """Create an object that does not exist yet; returns its version, or None if it exists. An
        earlier try of the same request may have created it: the caller compares the result of
        `look`."""

    def replace(
        self, key: str, data: bytes, version: str, *, short_lived: bool = False
    ) -> str | None:
        """Replace this version of an object; returns the new version, or None if it has another one
        now."""


def joined(chunks: Iterator[bytes], key: str) -> bytes:
    """The content of an object; ValueError if it has more than LARGEST bytes."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > LARGEST:
            raise ValueError(f"{key} has more than {LARGEST} bytes")
    return bytes(data)


def encoded(digest: bytes) -> str:
    """A digest in the form of the clouds' APIs: base64."""
    return base64.b64encode(digest).decode()
