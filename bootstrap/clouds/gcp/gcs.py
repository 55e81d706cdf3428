"""The bucket protocol for Google Cloud Storage, over its JSON API."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bootstrap.clouds.base import Refused
from bootstrap.clouds.gcp import batch
from bootstrap.clouds.gcp.client import GoogleClient, connect, refused
from bootstrap.clouds.storage import NoBucket, Version
from bootstrap.errors import RailheadError

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
        query = {"versions": "true", "fields": FIELDS, "prefix": prefix}
        while True:
            page = self._list(query)
            if found := page.get("items", []):
                yield [Version(i["name"], i["generation"], int(i.get("size", 0))) for i in found]
            if "nextPageToken" not in page:
                return
            query["pageToken"] = page["nextPageToken"]

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
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        content_type, body = _multipart({"name": key, "md5Hash": digest}, data)
        try:
            response = self.client(
                "POST",
                f"{self.client.storage}upload/{self._path()}",
                params={"uploadType": "multipart", "fields": "md5Hash"},
                # As a stream, so that the timeout applies to each chunk, not to the upload.
                data=io.BytesIO(body),
                headers={"Content-Type": content_type},
            )
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._with_hint(error) from None
        if response.get("md5Hash") != digest:
            raise RailheadError(f"{key} in {self.url} is not what was uploaded")

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
                    error = refused(what, status, document.get("error", {}))
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

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
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


def _multipart(resource: dict[str, str], data: bytes) -> tuple[str, bytes]:
    """The content type and the body of an upload: the object's metadata, then its bytes."""
    boundary = secrets.token_hex(16)  # 128 random bits do not occur in the data
    first = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
    second = f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    head = f"{first}{json.dumps(resource)}{second}".encode()
    return f"multipart/related; boundary={boundary}", head + data + f"\r\n--{boundary}--".encode()


def open_bucket(name: str, region: str | None) -> Gcs:
    """A bucket of Cloud Storage; its address needs no region."""
    return Gcs(connect(), name)
