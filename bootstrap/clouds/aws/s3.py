"""The bucket protocol for S3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass

from ...errors import RailheadError
from ...host.buckets.s3 import S3Objects
from ..base import Refused, unless_refused
from ..storage import NoBucket, Version
from .client import checked, connect

T = TypeVar("T")
ABSENT = ("NoSuchKey", "404")


def _read(kind: type[T], answer: Any) -> T:
    return decode(kind, answer, what="S3's answer", error=RailheadError)


@dataclass(frozen=True)
class Item:
    """An object, one of its versions, or a delete marker; the fields have S3's names."""

    Key: str
    VersionId: str = ""
    Size: int = 0


@dataclass(frozen=True)
class Page:
    """The answer of a list operation."""

    IsTruncated: bool = False
    Contents: tuple[Item, ...] = ()
    Versions: tuple[Item, ...] = ()
    DeleteMarkers: tuple[Item, ...] = ()


@dataclass(frozen=True)
class NotRemoved:
    """An object that S3 did not remove, and why."""

    Key: str = ""
    Code: str = "?"
    Message: str = ""


class S3(S3Objects):
    """The bucket s3://name."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"s3://{self.name}"

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions, including the delete markers."""
        for page in self._pages("list_object_versions", prefix):
            if versions := (*page.Versions, *page.DeleteMarkers):
                yield [Version(v.Key, v.VersionId, v.Size) for v in versions]

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes; KeyError when there is no such object."""
        try:
            return checked(super().read(key))
        except Refused as refused:
            if refused.error_code in ABSENT:
                raise KeyError(key) from None
            raise

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now."""
        for page in self._pages("list_objects_v2", prefix):
            yield [Version(item.Key, "", item.Size) for item in page.Contents]

    def _pages(self, operation: str, prefix: str) -> Iterator[Page]:
        """The responses of a list operation: each has `Next...` parameters for the one after it."""
        query = {"Prefix": prefix}
        while True:
            answer = self.call(operation, **query)
            page = _read(Page, answer)
            yield page
            if not page.IsTruncated:
                return
            query |= {k.removeprefix("Next"): v for k, v in answer.items() if k.startswith("Next")}

    def sha256(self, key: str) -> str | None:
        """The hash in the object's metadata."""
        head = unless_refused(ABSENT, lambda: self.call("head_object", Key=key)) or {}
        return _read(dict[str, str], head.get("Metadata", {})).get("sha256")

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions in one call."""
        keys = [{"Key": v.key, "VersionId": v.id} for v in versions]
        answer = self.call("delete_objects", Delete={"Objects": keys, "Quiet": True})
        failed = _read(tuple[NotRemoved, ...], answer.get("Errors", ()))
        if failed and len(failed) == len(keys):
            first = failed[0]
            refusal = f"AWS refuses to remove {first.Key} from {self.url}"
            raise Refused(f"{refusal}: {first.Code}: {first.Message}", first.Code)
        return len(keys) - len(failed)

    def call(self, operation: str, **parameters: Any) -> Any:
        """The response to an operation on this bucket; NoBucket if it does not exist."""
        try:
            return super().call(operation, **parameters)
        except Refused as refused:
            if refused.error_code == "NoSuchBucket":
                raise NoBucket(self.url) from None
            raise


def open_bucket(name: str, region: str | None) -> S3:
    """A bucket of S3 in a region."""
    return S3(connect(region), name)
