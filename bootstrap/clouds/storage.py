"""The protocol of a cloud's bucket: list, read, write and remove the versions of its objects.

s3 and gcs implement it. An object that was written twice has two versions, and both are billed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bootstrap.clouds.base import Refused
from bootstrap.errors import RailheadError

PAGES = 20  # of a thousand versions each; counting stops after these


class NoBucket(Refused):
    """The bucket does not exist."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"there is no bucket {url}: it was removed, or never made",
            "NoSuchBucket",
            hint="pulumi refresh --yes && pulumi up   # makes it anew; what was in it is gone",
        )


@dataclass(frozen=True)
class Version:
    """One version of an object; `size` in bytes."""

    key: str
    id: str
    size: int


@dataclass(frozen=True)
class BucketContents:
    """The number and bytes of a bucket's versions; `whole` is False where counting was stopped."""

    versions: int
    size: int
    whole: bool


class Store(Protocol):
    """One bucket. Every method raises NoBucket when it does not exist."""

    @property
    def url(self) -> str:
        """Its address: s3://name, gs://name."""

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions of the objects under a prefix, up to a thousand at a time."""

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes; KeyError when there is no such object."""

    def write(self, key: str, data: bytes) -> None:
        """Create an object of some megabytes, completely or not at all: the cloud checks a hash
        before the object is visible.

        Raises:
            Refused: the cloud received other bytes.
        """

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now, without old versions, up to a thousand at a
        time."""

    def upload(self, key: str, path: Path, sha256: str) -> None:
        """Create an object of any size from a file, completely or not at all; the object keeps the
        hash.

        Raises:
            Refused: the cloud received other bytes. OSError: the file cannot be read.
        """

    def sha256(self, key: str) -> str | None:
        """The hash that `upload` kept with an object; None if there is no object or no hash."""

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove up to a thousand versions for good; returns how many are gone, including those
        that were gone already.

        Raises:
            Refused: none could be removed.
        """


def encoded(digest: bytes) -> str:
    """A digest as the clouds' APIs have it: in base64."""
    return base64.b64encode(digest).decode()


def changed_while_uploaded(path: Path) -> RailheadError:
    """The error for a file that no longer has its hash."""
    return RailheadError(f"{path} changed while it was uploaded")


def count_objects(store: Store) -> BucketContents:
    """Count the versions in a bucket, up to PAGES pages."""
    versions = size = 0
    pages = store.pages()
    for _ in range(PAGES):
        page = next(pages, None)
        if page is None:
            return BucketContents(versions, size, whole=True)
        versions, size = versions + len(page), size + sum(v.size for v in page)
    return BucketContents(versions, size, whole=next(pages, None) is None)
