"""The bucket protocol for Google Cloud Storage, over its JSON API."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from bootstrap.clouds.base import Refused
from bootstrap.clouds.gcp import batch
from bootstrap.clouds.gcp.client import GoogleClient, connect, refused
from bootstrap.clouds.storage import NoBucket, Version, changed_while_uploaded, encoded
from bootstrap.errors import RailheadError

PIECE = 1 << 20
ABSENT = ("notFound", "404")
FORBIDDEN = ("forbidden", "403")
FIELDS = "items(name,generation,size),nextPageToken"


@dataclass(frozen=True)
class Gcs:
    """The bucket gs://name."""

    client: GoogleClient
    name: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"gs://{self.name}"

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions, including noncurrent ones."""
        return filter(None, self._pages({"versions": "true", "prefix": prefix}))

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes as they were uploaded."""
        address = f"{self.client.storage}{self._path(key)}"
        headers = {"Accept-Encoding": "identity"}
        content = self.client.read(address, params={"alt": "media"}, headers=headers)
        try:
            first = next(content, b"")
        except Refused as error:
            if error.error_code not in ABSENT:
                raise self._with_hint(error) from None
            self._list({"maxResults": "1"})  # a missing bucket gives the same error
            raise KeyError(key) from None
        return itertools.chain([first], content)

    def write(self, key: str, data: bytes) -> None:
        """Create an object. Google refuses bytes that do not match the MD5 sent with them."""
        digest = encoded(hashlib.md5(data, usedforsecurity=False).digest())
        content_type, head, tail = _multipart({"name": key, "md5Hash": digest})
        # As a stream, so that the timeout applies to each chunk, not to the upload.
        self._insert(key, digest, content_type, io.BytesIO(head + data + tail))

    def _insert(self, key: str, digest: str, content_type: str, body: Any) -> None:
        """Create an object from the body of an upload; `digest` is the MD5 of its content."""
        try:
            response = self.client(
                "POST",
                f"{self.client.storage}upload/{self._path()}",
                params={"uploadType": "multipart", "fields": "md5Hash"},
                data=body,
                headers={"Content-Type": content_type},
            )
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._with_hint(error) from None
        if response.get("md5Hash") != digest:
            raise RailheadError(f"{key} in {self.url} is not what was uploaded")

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now."""
        return self._pages({"prefix": prefix})

    def _pages(self, query: dict[str, str]) -> Iterator[list[Version]]:
        """The pages of a list; some may be empty."""
        query["fields"] = FIELDS
        while True:
            page = self._list(query)
            found = page.get("items", [])
            yield [Version(i["name"], i["generation"], int(i.get("size", 0))) for i in found]
            if "nextPageToken" not in page:
                return
            query["pageToken"] = page["nextPageToken"]

    def upload(self, key: str, path: Path, sha256: str) -> None:
        """Create an object from a file. Google refuses bytes that do not match the MD5 sent with
        them, which is of the bytes that have this sha256."""
        md5, whole = hashlib.md5(usedforsecurity=False), hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(PIECE):
                md5.update(data)
                whole.update(data)
        if whole.hexdigest() != sha256:
            raise changed_while_uploaded(path)
        digest = encoded(md5.digest())
        resource = {"name": key, "md5Hash": digest, "metadata": {"sha256": sha256}}
        content_type, head, tail = _multipart(resource)
        with path.open("rb") as file:
            parts = (io.BytesIO(head), file, io.BytesIO(tail))
            body = _Body(parts, len(head) + path.stat().st_size + len(tail))
            self._insert(key, digest, content_type, body)

    def sha256(self, key: str) -> str | None:
        """The hash in the object's metadata."""
        address = f"{self.client.storage}{self._path(key)}"
        try:
            found = self.client("GET", address, params={"fields": "metadata"})
        except Refused as error:
            if error.error_code in ABSENT:
                return None
            raise self._with_hint(error) from None
        sha256: str | None = found.get("metadata", {}).get("sha256")
        return sha256

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions, a hundred in one request."""
        gone, error = 0, None
        for start in range(0, len(versions), batch.MAX_CALLS):
            for version, (status, document) in self._remove_batch(
                versions[start : start + batch.MAX_CALLS]
            ):
                if status < 300 or status == 404:
                    gone += 1
                elif error is None:
                    what = f"to remove {version.key} from {self.url}"
                    error = refused(what, status, document)
        if error and not gone:
            raise self._with_hint(error)
        return gone

    def _remove_batch(
        self, versions: Sequence[Version]
    ) -> Iterator[tuple[Version, tuple[int, dict[str, Any]]]]:
        calls = [("DELETE", f"/{self._path(v.key)}?generation={v.id}") for v in versions]
        response = self.client.request(
            "POST",
            f"{self.client.storage}batch/storage/v1",
            data=batch.encode(calls),
            headers={"Content-Type": batch.CONTENT_TYPE},
        )
        try:
            outcomes = batch.decode(response.headers.get("Content-Type", ""), response.content)
            return iter(list(zip(versions, outcomes, strict=True)))
        except ValueError as error:
            raise RailheadError(f"Google's response to a batch is not valid: {error}") from None

    def _list(self, query: dict[str, str]) -> Any:
        try:
            return self.client("GET", f"{self.client.storage}{self._path()}", params=query)
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._with_hint(error) from None

    def _path(self, key: str = "") -> str:
        objects = f"storage/v1/b/{quote(self.name, safe='')}/o"
        return f"{objects}/{quote(key, safe='')}" if key else objects

    def _with_hint(self, error: Refused) -> Refused:
        """The error with the command that shows permissions, where one is missing."""
        if error.error_code not in FORBIDDEN:
            return error
        hint = f"gcloud storage buckets get-iam-policy {self.url}   # who has which rights on it"
        return Refused(error.message, error.error_code, hint=hint)


class _Body:
    """Files one after the other, with their size in bytes, as `requests` sends a stream."""

    def __init__(self, files: Sequence[BinaryIO], size: int) -> None:
        self._files, self._size = list(files), size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")

    def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end."""
        while self._files:
            if data := self._files[0].read(size if size >= 0 else PIECE):
                return data
            del self._files[0]
        return b""


def _multipart(resource: dict[str, Any]) -> tuple[str, bytes, bytes]:
    """The content type of an upload, and what is before and after the object's bytes."""
    boundary = secrets.token_hex(16)  # 128 random bits do not occur in the data
    first = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
    second = f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    head = f"{first}{json.dumps(resource)}{second}".encode()
    return f"multipart/related; boundary={boundary}", head, f"\r\n--{boundary}--".encode()


def open_bucket(name: str, region: str | None) -> Gcs:
    """A bucket of Cloud Storage; its address needs no region."""
    return Gcs(connect(), name)
