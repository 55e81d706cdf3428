"""A bucket of Google Cloud Storage, as the protocol of buckets wants it, over its JSON API."""

from __future__ import annotations

import base64
import hashlib
import io
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

    ask: GoogleClient
    name: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"gs://{self.name}"

    def pages(self, below: str = "") -> Iterator[list[Version]]:
        """All versions, old ones too."""
        query = {"versions": "true", "fields": FIELDS, "prefix": below}
        while True:
            page = self._list(query)
            if found := page.get("items", []):
                yield [Version(i["name"], i["generation"], int(i.get("size", 0))) for i in found]
            if "nextPageToken" not in page:
                return
            query["pageToken"] = page["nextPageToken"]

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes, as they were written."""
        address = f"{self.ask.storage}{self._path(key)}"
        head = {"Accept-Encoding": "identity"}
        sent = self.ask.read(address, params={"alt": "media"}, headers=head)
        try:
            first = next(sent, b"")
        except Refused as error:
            if error.error_code not in ABSENT:
                raise self._told(error) from None
            self._list({"maxResults": "1"})  # of a missing bucket Google says the same
            raise KeyError(key) from None
        return _after(first, sent)

    def write(self, key: str, data: bytes) -> None:
        """Make an object. Google refuses what has another MD5 than the one that is sent along."""
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        kind, body = _in_two_parts({"name": key, "md5Hash": digest}, data)
        try:
            said = self.ask(
                "POST",
                f"{self.ask.storage}upload/{self._path()}",
                params={"uploadType": "multipart", "fields": "md5Hash"},
                # As a stream: a timeout is then for each piece and not for all of it.
                data=io.BytesIO(body),
                headers={"Content-Type": kind},
            )
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._told(error) from None
        if said.get("md5Hash") != digest:
            raise RailheadError(f"{key} came into {self.url} with another content")

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions, a hundred in one request."""
        gone, why = 0, None
        for start in range(0, len(versions), batch.MOST):
            for version, (status, said) in self._removed(versions[start : start + batch.MOST]):
                if status < 300 or status == 404:
                    gone += 1
                elif why is None:
                    what = f"to remove {version.key} from {self.url}"
                    why = refused(what, status, said.get("error", {}))
        if why and not gone:
            raise self._told(why)
        return gone

    def _removed(
        self, versions: Sequence[Version]
    ) -> Iterator[tuple[Version, tuple[int, dict[str, Any]]]]:
        calls = [("DELETE", f"/{self._path(v.key)}?generation={v.id}") for v in versions]
        answer = self.ask.request(
            "POST",
            f"{self.ask.storage}batch/storage/v1",
            data=batch.packed(calls),
            headers={"Content-Type": batch.CONTENT_TYPE},
        )
        try:
            said = batch.unpacked(answer.headers.get("Content-Type", ""), answer.content)
            return iter(list(zip(versions, said, strict=True)))
        except ValueError as error:
            raise RailheadError(f"Google's answer to a batch is not understood: {error}") from None

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        try:
            return self.ask("GET", f"{self.ask.storage}{self._path()}", params=query)
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._told(error) from None

    def _path(self, key: str = "") -> str:
        objects = f"storage/v1/b/{quote(self.name, safe='')}/o"
        return f"{objects}/{quote(key, safe='')}" if key else objects

    def _told(self, error: Refused) -> Refused:
        """With what a person does who lacks a right; Google's own sentence names it."""
        if error.error_code not in FORBIDDEN:
            return error
        hint = f"gcloud storage buckets get-iam-policy {self.url}   # who has which rights on it"
        return Refused(error.message, error.error_code, hint=hint)


def _after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _in_two_parts(resource: dict[str, str], data: bytes) -> tuple[str, bytes]:
    """An upload's body, with its content type: what the object is to be, and its bytes."""
    edge = secrets.token_hex(16)  # 128 bits: they do not stand in the data
    first = f"--{edge}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
    second = f"\r\n--{edge}\r\nContent-Type: application/octet-stream\r\n\r\n"
    head = f"{first}{json.dumps(resource)}{second}".encode()
    return f"multipart/related; boundary={edge}", head + data + f"\r\n--{edge}--".encode()


def open_bucket(name: str, region: str | None) -> Gcs:
    """A bucket of Cloud Storage; its address needs no region."""
    return Gcs(connect(), name)
