"""The protocol of a cloud's bucket: list, read, write and remove the versions of its objects.

s3 and gcs implement it. An object that was written twice has two versions, and both are billed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from railhead.documents.lazy import dataclass

from ..host.buckets.objects import Objects
from .base import Refused

GB = 1 << 30  # bytes: the unit that both clouds bill
PAGES = 20  # of a thousand versions each; counting stops after these


class NoBucket(Refused):
    """The bucket does not exist."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"there is no bucket {url}: it was removed, or never created",
            "NoSuchBucket",
            hint="pulumi refresh --yes && pulumi up   # recreates it; what was in it is gone",
        )


@dataclass(frozen=True)
class Version:
    """One version of an object; `size` in bytes."""

    key: str
    id: str
    size: int


@dataclass(frozen=True)
class BucketContents:
    """The number and bytes of a bucket's versions; `whole` is False if counting was stopped."""

    versions: int
    size: int
    whole: bool


class Store(Objects, Protocol):
    """One bucket. Every method raises NoBucket when it does not exist, and Refused when the cloud
    received other bytes than were sent; `read` raises KeyError when there is no such object."""

    @property
    def url(self) -> str:
        """Its address: s3://name, gs://name."""

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions of the objects under a prefix, up to a thousand at a time."""

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now, without old versions, up to a thousand at a
        time."""

    def sha256(self, key: str) -> str | None:
        """The hash that `upload` kept with an object; None if there is no object or no hash."""

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove up to a thousand versions for good; returns how many are gone, including those
        that were gone already. Refused: none could be removed."""


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


def describe_contents(contents: BucketContents) -> str:
    """The contents of a bucket for people: `12 objects with their old versions, 0.31 GB`."""
    more = "" if contents.whole else "more than "
    return f"{more}{contents.versions} objects with their old versions, {contents.size / GB:.2f} GB"
