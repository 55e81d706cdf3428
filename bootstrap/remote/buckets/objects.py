"""What each cloud's bucket does with objects, whoever calls. Python 3.10.

Uploads are complete or do not exist, and the cloud itself compares a hash before an object is
visible; downloads are compared with the cloud's hash. `python -m training.data` and the training
use obstore instead; docs/data.md says why not here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

CHUNK = 1 << 20  # bytes of a download that are held at once


class ChangedFile(Exception):
    """A file no longer has its hash."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} changed while it was uploaded")


class Objects(Protocol):
    """The objects of one bucket. What a cloud refuses is raised as its client does."""

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes."""

    def write(self, key: str, data: bytes) -> None:
        """Create an object of some megabytes."""

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object of any size from a file; the object keeps the hash. Old versions of a
        short-lived object are removed after a day, by the rules of a stack's bucket.

        Raises:
            ChangedFile: the file has another hash. OSError: it cannot be read.
        """


def encoded(digest: bytes) -> str:
    """A digest in the form of the clouds' APIs: base64."""
    return base64.b64encode(digest).decode()
