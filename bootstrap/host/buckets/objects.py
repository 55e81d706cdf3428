"""What each cloud's bucket does with objects, whoever calls.

Uploads are complete or do not exist, and the cloud itself compares a hash before an object is
visible; downloads are compared with the cloud's hash. `python -m training.data` and the training
use obstore instead, which sends no hash that the cloud compares (0.12), and removes no versions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from railhead.documents.lazy import dataclass

CHUNK = 1 << 20  # bytes of a download that are held at once
SILENCE = 30.0  # seconds without an answer, after which a request is repeated
LARGEST = 64 << 20  # bytes of an object that is read whole


class ChangedFile(Exception):
    """A file no longer has its hash."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} changed while it was uploaded")


class WriteInProgress(Exception):
    """Another request writes the object at this moment, perhaps an earlier one of this host whose
    answer did not arrive: which of them succeeds is not known yet."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is written by another request at this moment")


class Objects(Protocol):
    """The objects of one bucket. What a cloud refuses is raised as its client does. Old versions of
    a short-lived object are removed after a day, by the rules of a stack's bucket."""

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes."""

    def write(self, key: str, data: bytes, *, short_lived: bool = False) -> None:
        """Create an object of some megabytes."""

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object of any size from a file; the object keeps the hash.

        Raises:
            ChangedFile: the file has another hash. OSError: it cannot be read.
        """


@dataclass(frozen=True)
class Stored:
    """An object as it was read: its content, and its version, which every write changes."""

    data: bytes
    version: str


class SharedObjects(Objects, Protocol):
    """The same, with what several hosts need that write the same objects. Of two that write under
    one condition at the same time, one succeeds; the other gets None or WriteInProgress."""

    def look(self, key: str) -> Stored | None:
        """An object; None if there is none. ValueError: it has more than LARGEST bytes."""

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        """Create an object that is not there yet; its version, or None if it is there. A request
        that was repeated may have created it: the caller compares what `look` returns."""

    def replace(
        self, key: str, data: bytes, version: str, *, short_lived: bool = False
    ) -> str | None:
        """Replace this version of an object; the new version, or None if it is another one now."""


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
