"""A bucket of S3, as the protocol of buckets wants it."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bootstrap.clouds.aws.client import Ask, connect, pieces
from bootstrap.clouds.base import Refused
from bootstrap.clouds.storage import NoBucket, Version


@dataclass(frozen=True)
class S3:
    """The bucket s3://name."""

    ask: Ask
    name: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"s3://{self.name}"

    def pages(self, below: str = "") -> Iterator[list[Version]]:
        """All versions, the marks of removed objects too."""
        words: dict[str, Any] = {"Prefix": below}
        while True:
            page = self._ask("list_object_versions", **words)
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if found:
                yield [Version(v["Key"], v["VersionId"], v.get("Size", 0)) for v in found]
            if not page.get("IsTruncated"):
                return
            words["KeyMarker"] = page["NextKeyMarker"]
            words["VersionIdMarker"] = page["NextVersionIdMarker"]

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes. S3 sends the hash that it was written with, and boto compares it."""
        try:
            body = self._ask("get_object", Key=key)["Body"]
        except Refused as refused:
            if refused.error_code in ("NoSuchKey", "404"):
                raise KeyError(key) from None
            raise
        return pieces(body)

    def write(self, key: str, data: bytes) -> None:
        """Make an object. S3 refuses what has another sha256 than the one that is sent along."""
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        # As a stream: a timeout is then for each piece and not for all of it.
        self._ask("put_object", Key=key, Body=io.BytesIO(data), ChecksumSHA256=digest)

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions, all in one call."""
        keys = [{"Key": v.key, "VersionId": v.id} for v in versions]
        said = self._ask("delete_objects", Delete={"Objects": keys, "Quiet": True})
        left = said.get("Errors", [])
        if left and len(left) == len(keys):
            first = left[0]
            told = f"AWS refuses to remove {first['Key']} from {self.url}: "
            word = str(first.get("Code", "?"))
            raise Refused(f"{told}{word}: {first.get('Message', '')}", word)
        return len(keys) - len(left)

    def _ask(self, call: str, **words: Any) -> Any:
        try:
            return self.ask("s3", call, Bucket=self.name, **words)
        except Refused as refused:
            if refused.error_code == "NoSuchBucket":
                raise NoBucket(self.url) from None
            raise


def open_bucket(name: str, region: str | None) -> S3:
    """A bucket of S3 in a region."""
    return S3(connect(region), name)
