"""What every cloud's buckets can be asked: their versions, a few at a time, and their bytes.

s3 and gcs speak it. An object that was written twice is two versions, and both are billed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from bootstrap.clouds.base import Refused

PAGES = 20  # of a thousand versions: a bucket with more is not counted to its end


class NoBucket(Refused):
    """There is no such bucket."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"there is no bucket {url}: it was removed, or never made",
            "NoSuchBucket",
            hint="pulumi refresh --yes && pulumi up   # makes it anew; what was in it is gone",
        )


@dataclass(frozen=True)
class Version:
    """One version of an object."""

    key: str
    id: str
    size: int


@dataclass(frozen=True)
class BucketContents:
    """What a bucket holds; `whole` is False where the counting was ended."""

    versions: int
    size: int
    whole: bool


class Store(Protocol):
    """One bucket. NoBucket when it is not there."""

    @property
    def url(self) -> str:
        """Its address: s3://name, gs://name."""

    def pages(self, below: str = "") -> Iterator[list[Version]]:
        """All versions of the objects whose names begin so, up to a thousand at a time."""

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes; KeyError when there is none of this name."""

    def write(self, key: str, data: bytes) -> None:
        """Make an object of some megabytes, whole or not at all: the cloud compares a hash before
        others see it. Refused when it has another."""

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove up to a thousand versions for good; how many went. One that is gone already
        counts. Refused when none went."""


def count_objects(store: Store) -> BucketContents:
    """Count what is there, to a limit."""
    versions = size = 0
    pages = store.pages()
    for _ in range(PAGES):
        page = next(pages, None)
        if page is None:
            return BucketContents(versions, size, whole=True)
        versions, size = versions + len(page), size + sum(v.size for v in page)
    return BucketContents(versions, size, whole=next(pages, None) is None)
