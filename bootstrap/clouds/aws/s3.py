"""The bucket protocol for S3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bootstrap.clouds.aws.client import checked, connect
from bootstrap.clouds.base import Refused
from bootstrap.clouds.storage import NoBucket, Version
from bootstrap.remote.buckets.s3 import S3Objects

ABSENT = ("NoSuchKey", "404")


class S3(S3Objects):
    """The bucket s3://name."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"s3://{self.name}"

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions, including the delete markers."""
        for page in self._pages("list_object_versions", prefix):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if found:
                yield [Version(v["Key"], v["VersionId"], v.get("Size", 0)) for v in found]

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
            yield [Version(item["Key"], "", item["Size"]) for item in page.get("Contents", ())]

    def _pages(self, operation: str, prefix: str) -> Iterator[Any]:
        """The responses of a list operation: each has `Next...` parameters for the one after it."""
        query = {"Prefix": prefix}
        while True:
            page = self.call(operation, **query)
            yield page
            if not page.get("IsTruncated"):
                return
            query |= {k.removeprefix("Next"): page[k] for k in page if k.startswith("Next")}

    def sha256(self, key: str) -> str | None:
        """The hash in the object's metadata."""
        try:
            found: str | None = self.call("head_object", Key=key)["Metadata"].get("sha256")
        except Refused as refused:
            if refused.error_code in ABSENT:
                return None
            raise
        return found

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions in one call."""
        keys = [{"Key": v.key, "VersionId": v.id} for v in versions]
        response = self.call("delete_objects", Delete={"Objects": keys, "Quiet": True})
        failed = response.get("Errors", [])
        if failed and len(failed) == len(keys):
            code, message = failed[0].get("Code", "?"), failed[0].get("Message", "")
            what = f"AWS refuses to remove {failed[0]['Key']} from {self.url}"
            raise Refused(f"{what}: {code}: {message}", str(code))
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
