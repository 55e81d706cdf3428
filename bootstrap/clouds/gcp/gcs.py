"""The bucket protocol for Google Cloud Storage, over its JSON API."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from railhead.documents.lazy import dataclass

from ...errors import RailheadError
from ...host.buckets.gcs import GcsObjects
from ..base import Refused
from ..machines import Place
from ..storage import NoBucket, Version
from . import batch
from .client import GoogleClient, connect, refused
from .labels import ID
from .listed import ListedBucket

ABSENT = ("notFound", "404")
FORBIDDEN = ("forbidden", "403")
FIELDS = "items(name,generation,size),nextPageToken"


@dataclass(frozen=True)
class Item:
    """An object or one of its versions; the fields have Google's names."""

    name: str = ""
    generation: str = ""
    size: str = "0"
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A page of a list of objects."""

    items: tuple[Item, ...] = ()
    nextPageToken: str = ""


@dataclass(frozen=True)
class Gcs(GcsObjects):
    """The bucket gs://name."""

    client: GoogleClient

    @property
    def url(self) -> str:
        """Its address."""
        return f"gs://{self.name}"

    def pages(self, prefix: str = "") -> Iterator[list[Version]]:
        """All versions, including noncurrent ones."""
        return filter(None, self._pages({"versions": "true", "prefix": prefix}))

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes as they were uploaded; KeyError when there is no such object."""
        content = super().read(key)
        try:
            first = next(content, b"")
        except Refused as error:
            if error.error_code not in ABSENT:
                raise self._with_hint(error) from None
            self._list({"maxResults": "1"})  # a missing bucket gives the same error
            raise KeyError(key) from None
        return itertools.chain([first], content)

    def send(self, body: Any, content_type: str, **condition: str) -> str:
        """Send the body of an upload; the generation of its object."""
        with self._refusals():
            return super().send(body, content_type, **condition)

    def objects(self, prefix: str = "") -> Iterator[list[Version]]:
        """The objects under a prefix as they are now."""
        return self._pages({"prefix": prefix})

    def _pages(self, query: dict[str, str]) -> Iterator[list[Version]]:
        """The pages of a list; some may be empty."""
        query["fields"] = FIELDS
        while True:
            page = self._list(query)
            yield [Version(i.name, i.generation, int(i.size)) for i in page.items]
            if not page.nextPageToken:
                return
            query["pageToken"] = page.nextPageToken

    def sha256(self, key: str) -> str | None:
        """The hash in the object's metadata."""
        try:
            query = {"fields": "metadata"}
            return self.client.get(Item, self.address(key), params=query).metadata.get("sha256")
        except Refused as error:
            if error.error_code in ABSENT:
                return None
            raise self._with_hint(error) from None

    def remove(self, versions: Sequence[Version]) -> int:
        """Remove versions, a hundred in one request."""
        gone, error = 0, None
        for start in range(0, len(versions), batch.MAX_CALLS):
            for version, outcome in self._remove_batch(versions[start : start + batch.MAX_CALLS]):
                if outcome.status < 300 or outcome.status == 404:
                    gone += 1
                elif error is None:
                    call = f"to remove {version.key} from {self.url}"
                    error = refused(call, outcome.status, outcome.document)
        if error and not gone:
            raise self._with_hint(error)
        return gone

    def _remove_batch(self, versions: Sequence[Version]) -> Iterator[tuple[Version, batch.Outcome]]:
        calls = [("DELETE", f"/{self.path(v.key)}?generation={v.id}") for v in versions]
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

    def _list(self, query: dict[str, str]) -> Page:
        with self._refusals():
            return self.client.get(Page, self.address(), params=query)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise NoBucket if Google has nothing under the bucket's name."""
        try:
            yield
        except Refused as error:
            if error.error_code in ABSENT:
                raise NoBucket(self.url) from None
            raise self._with_hint(error) from None

    def _with_hint(self, error: Refused) -> Refused:
        """The error, with the command that shows permissions if one is missing."""
        if error.error_code not in FORBIDDEN:
            return error
        hint = f"gcloud storage buckets get-iam-policy {self.url}   # who has which rights on it"
        return Refused(error.message, error.error_code, hint=hint)


def open_bucket(name: str, region: str | None) -> Gcs:
    """A bucket of Cloud Storage; its address needs no region."""
    return Gcs(connect(), name)


def remove_bucket(
    place: Place, name: str, cluster_id: str, client: GoogleClient | None = None
) -> bool:
    """Remove a bucket that a killed `pulumi up` left, if it has this id; whether it is gone. Google
    removes only an empty one."""
    client = client or connect()
    address = f"{client.storage}storage/v1/b/{name}"
    try:
        labels = client.get(ListedBucket, address).labels
        if labels.get(ID) == cluster_id:
            client("DELETE", address)
    except Refused:
        return False
    return labels.get(ID) == cluster_id
