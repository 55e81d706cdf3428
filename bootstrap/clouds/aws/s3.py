"""The bucket protocol for S3."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bootstrap.clouds.aws.client import AwsClient, connect, read_chunks
from bootstrap.clouds.base import Refused
from bootstrap.clouds.storage import NoBucket, Version


@dataclass(frozen=True)
class S3:
    """The bucket s3://name."""

    client: AwsClient
    name: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"s3://{self.name}"

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions, including the delete markers."""
        query: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._call("list_object_versions", **query)
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if found:
                yield [Version(v["Key"], v["VersionId"], v.get("Size", 0)) for v in found]
            if not page.get("IsTruncated"):
                return
            query["KeyMarker"] = page["NextKeyMarker"]
            query["VersionIdMarker"] = page["NextVersionIdMarker"]

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes. S3 sends the hash of the upload, and boto checks it."""
        try:
            body = self._call("get_object", Key=key)["Body"]
        except Refused as refused:
            if refused.error_code in ("NoSuchKey", "404"):
                raise KeyError(key) from None
            raise
        return read_chunks(body)

    def write(self, key: str, data: bytes) -> None:
        """Create an object. S3 refuses bytes that do not match the sha256 sent with them."""
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        # As a stream, so that the timeout applies to each chunk, not to the whole upload.
        self._call("put_object", Key=key, Body=io.BytesIO(data), ChecksumSHA256=digest)

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions in one call."""
        keys = [{"Key": v.key, "VersionId": v.id} for v in versions]
        response = self._call("delete_objects", Delete={"Objects": keys, "Quiet": True})
        failed = response.get("Errors", [])
        if failed and len(failed) == len(keys):
            code, message = failed[0].get("Code", "?"), failed[0].get("Message", "")
            what = f"AWS refuses to remove {failed[0]['Key']} from {self.url}"
            raise Refused(f"{what}: {code}: {message}", str(code))
        return len(keys) - len(failed)

    def _call(self, operation: str, **parameters: Any) -> Any:
        try:
            return self.client("s3", operation, Bucket=self.name, **parameters)
        except Refused as refused:
            if refused.error_code == "NoSuchBucket":
                raise NoBucket(self.url) from None
            raise


def open_bucket(name: str, region: str | None) -> S3:
    """A bucket of S3 in a region."""
    return S3(connect(region), name)
