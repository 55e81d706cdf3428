"""Objects of Google Cloud Storage, over its JSON API, with google-auth."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from railhead.documents.lazy import dataclass, field

from . import certificates
from .objects import CHUNK, SILENCE, ChangedFile, Stored, encoded, joined
from .repeats import OVERLOADED, Outage

STORAGE = "https://storage.googleapis.com/"
EMULATOR = "STORAGE_EMULATOR_HOST"  # Google's own variable for a server without credentials
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
THROTTLED = ("rateLimitExceeded", "userRateLimitExceeded")  # Compute's reasons, with status 403
# Methods that may be repeated although they may have succeeded; an insert may not.
REPEATED = re.compile(r"/(start|stop|setScheduling|queries)$|/batch/storage/|/upload/|:[A-Za-z]+$")
AS_UPLOADED = {"params": {"alt": "media"}, "headers": {"Accept-Encoding": "identity"}}
Properties = Mapping[str, str | Mapping[str, str]]  # of an object


@dataclass(frozen=True)
class StorageClient:
    """Sends requests with a session of `requests`; `storage` is the base address, `silence`:
    seconds without an answer after which a request has failed. requests.RequestException: the
    network failed, or Google refused."""

    session: Any
    storage: str = STORAGE
    silence: float = field(default=SILENCE, kw_only=True)

    def request(self, method: str, address: str, **options: Any) -> Any:
        """The response; its status is below 400."""
        from requests import HTTPError

        response = send(self.session, method, address, timeout=self.silence, **options)
        if response.status_code >= 400:
            why = f"Google refuses {method} {address}: {response.text[:400]}"
            raise HTTPError(why, response=response)
        return response

    def read(self, address: str, **options: Any) -> Iterator[bytes]:
        """The content at an address, as from `content`."""
        response = self.request("GET", address, stream=True, **options)
        yield from self.content(response, address, **options)

    def content(self, response: Any, address: str, **options: Any) -> Iterator[bytes]:
        """The content of a response, in chunks, compared with Google's MD5 if there is one.
        `options`: of the request."""
        from requests import RequestException

        received = hashlib.md5(usedforsecurity=False)
        for data in self._pieces(response, address, options):
            received.update(data)
            yield data
        hashes = response.headers.get("x-goog-hash", "").replace(" ", "").split(",")
        sent = [text[4:] for text in hashes if text.startswith("md5=")]
        if sent and sent != [encoded(received.digest())]:
            raise RequestException(f"{address} came with other content than its MD5 is of")

    def _pieces(self, response: Any, address: str, options: Any) -> Iterator[bytes]:
        """The content of a response; after a broken connection, it continues with the same
        generation."""
        from requests import RequestException

        generation, position, outage = response.headers.get("x-goog-generation"), 0, Outage()
        while True:
            try:
                for data in response.iter_content(CHUNK):
                    position, outage = position + len(data), Outage()
                    yield data
                return
            except RequestException:
                if generation is None or not outage.lasts():
                    raise
            rest = {
                "params": {**options.get("params", {}), "generation": generation},
                "headers": {**options.get("headers", {}), "Range": f"bytes={position}-"},
            }
            response = self.request("GET", address, stream=True, **rest)
            if position and response.status_code != 206:
                raise RequestException(f"{address} does not come in parts")


def send(session: Any, method: str, address: str, **options: Any) -> Any:
    """The response to a request, which is repeated through an outage (repeats.py). If a repeated
    DELETE finds nothing, it has succeeded before: status 204. requests.RequestException,
    google.auth's GoogleAuthError: the network failed."""
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    outage = Outage()
    repeated = method != "POST" or REPEATED.search(address.partition("?")[0])
    while True:
        try:
            response = session.request(method, address, **options)
        except (RequestException, GoogleAuthError) as error:
            if not repeated or not passes(error) or not outage.lasts():
                raise
        else:
            if not repeated or not is_busy(response) or not outage.lasts():
                break
            response.close()
        if isinstance(options.get("data"), _Body):
            options["data"].seek(0)
    if method == "DELETE" and outage.tries and response.status_code == 404:
        response.status_code = 204
    return response


def passes(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    from google.auth.exceptions import GoogleAuthError, TransportError
    from requests import exceptions

    if isinstance(error, GoogleAuthError):
        return isinstance(error, TransportError) or error.retryable
    network = (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError)
    return isinstance(error, network) and not isinstance(error, exceptions.SSLError)


def is_busy(response: Any) -> bool:
    """Whether Google is overloaded, or refuses for too many requests."""
    if response.status_code == 403:
        return any(f'"{reason}"' in response.text for reason in THROTTLED)
    return response.status_code in OVERLOADED


def status_of(error: Exception) -> int:
    """The HTTP status in an error of requests (not imported here); 0 in other errors."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def google_session(scope: str = SCOPE) -> Any:
    """A session with the default credentials; an error of google.auth if there are none."""
    import google.auth
    import requests
    from google.auth.transport.requests import AuthorizedSession, Request

    credentials, _ = google.auth.default(scopes=[scope])
    logins = requests.Session()
    session = AuthorizedSession(credentials, auth_request=Request(logins))  # type: ignore[no-untyped-call]
    logins.verify = session.verify = certificates.trusted() or True
    return session


def open_objects(name: str, silence: float = SILENCE) -> GcsObjects:
    """A bucket, with the credentials of this machine's service account."""
    import requests

    emulator = os.environ.get(EMULATOR, "")
    session = requests.Session() if emulator else google_session()
    address = emulator if "://" in emulator or not emulator else f"http://{emulator}"
    storage = f"{address.rstrip('/')}/" if address else STORAGE
    return GcsObjects(StorageClient(session, storage, silence=silence), name)


@dataclass(frozen=True)
class GcsObjects:
    """The objects of the bucket gs://name."""

    client: StorageClient
    name: str

    def read(self, key: str) -> Iterator[bytes]:
        """An object's bytes as they were uploaded."""
        return self.client.read(self.address(key), **AS_UPLOADED)

    def write(self, key: str, data: bytes, *, short_lived: bool = False) -> None:
        """Create an object. Google refuses bytes that do not match the MD5 sent with them."""
        self._write(key, data, short_lived)

    def look(self, key: str) -> Stored | None:
        """An object with its generation; None if there is none."""
        address = self.address(key)
        try:
            response = self.client.request("GET", address, stream=True, **AS_UPLOADED)
        except Exception as error:
            if status_of(error) == 404:
                return None
            raise
        data = joined(self.client.content(response, address, **AS_UPLOADED), key)
        return Stored(data, response.headers["x-goog-generation"])

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        """Create an object that does not exist yet; returns its generation, or None if it
        exists."""
        return self.replace(key, data, "0", short_lived=short_lived)

    def replace(
        self, key: str, data: bytes, version: str, *, short_lived: bool = False
    ) -> str | None:
        """Replace this generation of an object; returns the new one, or None if it has another one
        now."""
        try:
            return self._write(key, data, short_lived, ifGenerationMatch=version)
        except Exception as error:
            if status_of(error) == 412:
                return None
            raise

    def _write(self, key: str, data: bytes, short_lived: bool, **condition: str) -> str:
        """Create an object; returns its generation."""
        md5, more = hashlib.md5(data, usedforsecurity=False), _lifetime(short_lived)
        return self._insert(key, io.BytesIO(data), len(data), md5, more, **condition)

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object from a file with this sha256. Google refuses bytes that do not match the
        MD5, which is computed while the sha256 is checked. A customTime makes it short-lived."""
        more = _lifetime(short_lived)
        md5, whole = hashlib.md5(usedforsecurity=False), hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                md5.update(data)
                whole.update(data)
            if whole.hexdigest() != sha256:
                raise ChangedFile(path)
            file.seek(0)
            size = os.fstat(file.fileno()).st_size
            self._insert(key, file, size, md5, {"metadata": {"sha256": sha256}, **more})

    def _insert(
        self, key: str, content: BinaryIO, size: int, md5: Any, more: Properties, **condition: str
    ) -> str:
        """Create an object from `size` bytes that have this MD5; `more`: other properties. Returns
        its generation."""
        digest = encoded(md5.digest())
        resource = {"name": key, "md5Hash": digest, **more}
        content_type, head, tail = _multipart(json.dumps(resource))
        # Google compares the content with md5Hash, and refuses any other. As a stream, so that the
        # timeout applies to each chunk, not to the upload.
        body = _Body((io.BytesIO(head), content, io.BytesIO(tail)), len(head) + size + len(tail))
        return self.send(body, content_type, **condition)

    def send(self, body: Any, content_type: str, **condition: str) -> str:
        """Send the body of an upload; returns the generation of the object."""
        response = self.client.request(
            "POST",
            f"{self.client.storage}upload/{self.path()}",
            params={"uploadType": "multipart", "fields": "generation", **condition},
            data=body,
            headers={"Content-Type": content_type},
        )
        return str(response.json()["generation"])

    def path(self, key: str = "") -> str:
        """The path of an object, or of the list of objects, in the API."""
        objects = f"storage/v1/b/{quote(self.name, safe='')}/o"
        return f"{objects}/{quote(key, safe='')}" if key else objects

    def address(self, key: str = "") -> str:
        """The address of an object, or of the list of objects, in the API."""
        return f"{self.client.storage}{self.path(key)}"


def _lifetime(short_lived: bool) -> Properties:
    """The properties of an object: if short-lived, its old versions are removed after a day."""
    return {"customTime": datetime.now(timezone.utc).isoformat()} if short_lived else {}


class _Body:
    """Concatenated files as a stream for `requests`, with its size in bytes; a repeated upload
    reads it again from the start."""

    def __init__(self, files: Sequence[BinaryIO], size: int) -> None:
        self._files, self._size, self._next = files, size, 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")

    def tell(self) -> int:
        """The position to which `seek` goes back: the start."""
        return 0

    def seek(self, _: int) -> None:
        """Go back to the start."""
        self._next = 0
        for file in self._files:
            file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end."""
        while self._next < len(self._files):
            if data := self._files[self._next].read(size if size >= 0 else CHUNK):
                return data
            self._next += 1
        return b""


def _multipart(resource: str) -> tuple[str, bytes, bytes]:
    """The content type of an upload, and the bytes before and after the object's."""
    boundary = secrets.token_hex(16)  # 128 random bits do not occur in the data
    first = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
    second = f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    head = f"{first}{resource}{second}".encode()
    return f"multipart/related; boundary={boundary}", head, f"\r\n--{boundary}--".encode()
