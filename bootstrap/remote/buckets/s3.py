"""Objects of S3, by boto3. Python 3.10."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.documents.manifest import SHORT_LIVED

from .objects import CHUNK, ChangedFile, encoded

PART = 64 << 20  # bytes of a part of a large object; S3 takes at most 10,000 parts

Call = Callable[..., Any]  # (service, operation, **parameters) -> response


def boto_client(service: str, region: str | None = None, session: Any = None) -> Any:
    """A client of boto3 with timeouts and retries; the clients of one `session` read a service's
    model once."""
    from botocore.config import Config

    retries = {"mode": "standard", "max_attempts": 5}
    config = Config(connect_timeout=5, read_timeout=30, retries=retries)
    return (session or boto_session()).client(service, region_name=region, config=config)


def boto_session() -> Any:
    """A session of boto3, with the user's credentials and region."""
    import boto3

    return boto3.Session()


def open_objects(name: str) -> S3Objects:
    """A bucket, with the rights of this machine's role."""
    client = boto_client("s3")
    return S3Objects(lambda _, operation, **values: getattr(client, operation)(**values), name)


@dataclass(frozen=True)
class S3Objects:
    """The objects of the bucket s3://name."""

    client: Call
    name: str

    def call(self, operation: str, **parameters: Any) -> Any:
        """The response to an operation on this bucket."""
        return self.client("s3", operation, Bucket=self.name, **parameters)

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes. S3 sends the hash of the upload, and boto checks it."""
        body = self.call("get_object", Key=key)["Body"]
        return iter(lambda: body.read(CHUNK), b"")

    def write(self, key: str, data: bytes) -> None:
        """Create an object. S3 refuses bytes that do not match the sha256 sent with them."""
        digest = encoded(hashlib.sha256(data).digest())
        # As a stream, so that the timeout applies to each chunk, not to the whole upload.
        self.call("put_object", Key=key, Body=io.BytesIO(data), ChecksumSHA256=digest)

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object from a file. S3 refuses bytes that do not match the sha256 of the file,
        or of a part of it. A tag makes it short-lived; without the right to set tags it has none,
        and its old versions are kept as long as all others."""
        put = self._upload_parts if path.stat().st_size > PART else self._put
        if short_lived:
            try:
                put(key, path, sha256, Tagging="=".join(SHORT_LIVED))
                return
            except Exception as error:  # botocore's, which is loaded on use
                if getattr(error, "response", {}).get("Error", {}).get("Code") != "AccessDenied":
                    raise
        put(key, path, sha256)

    def _put(self, key: str, path: Path, sha256: str, **options: str) -> None:
        """Create an object in one request."""
        options |= {"Key": key, "ChecksumSHA256": encoded(bytes.fromhex(sha256))}
        with path.open("rb") as body:
            self.call("put_object", Body=body, Metadata={"sha256": sha256}, **options)

    def _upload_parts(self, key: str, path: Path, sha256: str, **options: str) -> None:
        """Create an object in parts; S3 joins them at the end, or never."""
        options |= {"Key": key, "ChecksumAlgorithm": "SHA256"}
        begun = self.call("create_multipart_upload", Metadata={"sha256": sha256}, **options)
        upload = {"Key": key, "UploadId": begun["UploadId"]}
        digest = hashlib.sha256()
        parts: list[dict[str, int | str]] = []
        try:
            with path.open("rb") as file:
                while data := file.read(PART):
                    digest.update(data)
                    parts.append(self._upload_part(upload, len(parts) + 1, data))
            if digest.hexdigest() != sha256:
                raise ChangedFile(path)
            self.call("complete_multipart_upload", MultipartUpload={"Parts": parts}, **upload)
        except BaseException:
            self.call("abort_multipart_upload", **upload)
            raise

    def _upload_part(
        self, upload: dict[str, str], number: int, data: bytes
    ) -> dict[str, int | str]:
        digest = encoded(hashlib.sha256(data).digest())
        sent = self.call(
            "upload_part", PartNumber=number, Body=io.BytesIO(data), ChecksumSHA256=digest, **upload
        )
        return {"PartNumber": number, "ETag": sent["ETag"], "ChecksumSHA256": digest}
