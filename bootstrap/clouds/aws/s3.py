"""The bucket protocol for S3."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.clouds.aws.client import AwsClient, connect, read_chunks
from bootstrap.clouds.base import Refused
from bootstrap.clouds.storage import NoBucket, Version, changed_while_uploaded, encoded

PART = 64 << 20  # bytes of a part of a large object; S3 takes at most 10,000 parts


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
        for page in self._pages("list_object_versions", prefix):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if found:
                yield [Version(v["Key"], v["VersionId"], v.get("Size", 0)) for v in found]

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
        digest = encoded(hashlib.sha256(data).digest())
        # As a stream, so that the timeout applies to each chunk, not to the whole upload.
        self._call("put_object", Key=key, Body=io.BytesIO(data), ChecksumSHA256=digest)

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now."""
        for page in self._pages("list_objects_v2", prefix):
            yield [Version(item["Key"], "", item["Size"]) for item in page.get("Contents", ())]

    def _pages(self, operation: str, prefix: str) -> Iterator[dict[str, Any]]:
        """The responses of a list operation: each has `Next...` parameters for the one after it."""
        query: dict[str, Any] = {"Prefix": prefix}
        while True:
            page = self._call(operation, **query)
            yield page
            if not page.get("IsTruncated"):
                return
            query |= {k.removeprefix("Next"): page[k] for k in page if k.startswith("Next")}

    def upload(self, key: str, path: Path, sha256: str) -> None:
        """Create an object from a file. S3 refuses bytes that do not match the sha256 of the file,
        or of a part of it."""
        metadata = {"sha256": sha256}
        if path.stat().st_size > PART:
            self._upload_parts(key, path, metadata)
            return
        digest = encoded(bytes.fromhex(sha256))
        with path.open("rb") as body:
            self._call("put_object", Key=key, Body=body, ChecksumSHA256=digest, Metadata=metadata)

    def _upload_parts(self, key: str, path: Path, metadata: dict[str, str]) -> None:
        """Create an object in parts; S3 joins them at the end, or never."""
        begun = self._call(
            "create_multipart_upload", Key=key, Metadata=metadata, ChecksumAlgorithm="SHA256"
        )
        upload = {"Key": key, "UploadId": begun["UploadId"]}
        whole = hashlib.sha256()
        parts: list[dict[str, Any]] = []
        try:
            with path.open("rb") as file:
                while data := file.read(PART):
                    whole.update(data)
                    parts.append(self._upload_part(upload, len(parts) + 1, data))
            if whole.hexdigest() != metadata["sha256"]:
                raise changed_while_uploaded(path)
            self._call("complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload)
        except BaseException:
            self._call("abort_multipart_upload", **upload)
            raise

    def _upload_part(self, upload: dict[str, str], number: int, data: bytes) -> dict[str, Any]:
        digest = encoded(hashlib.sha256(data).digest())
        sent = self._call(
            "upload_part", PartNumber=number, Body=io.BytesIO(data), ChecksumSHA256=digest, **upload
        )
        return {"PartNumber": number, "ETag": sent["ETag"], "ChecksumSHA256": digest}

    def sha256(self, key: str) -> str | None:
        """The hash in the object's metadata."""
        try:
            found: str | None = self._call("head_object", Key=key)["Metadata"].get("sha256")
        except Refused as refused:
            if refused.error_code in ("NoSuchKey", "404"):
                return None
            raise
        return found

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
