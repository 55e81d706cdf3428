"""Objects of S3, by boto3."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import SHORT_LIVED

from . import certificates
from .objects import CHUNK, SILENCE, ChangedFile, Stored, WriteInProgress, encoded, joined
from .repeats import OVERLOADED, Outage

REFUSED = ("PreconditionFailed", "NoSuchKey")  # S3's refusals of a condition
IN_PROGRESS = "ConditionalRequestConflict"
PART = 64 << 20  # bytes of a part of a large object; S3 takes at most 10,000 parts
# AWS's codes for too many requests (any status), and for missing capacity (status 500).
THROTTLED = re.compile("Throttl|SlowDown|RequestLimitExceeded|TooManyRequests|RequestTimeout")
NO_CAPACITY = re.compile("^Insufficient")

Call = Callable[..., Any]  # (service, operation, **parameters) -> response


def boto_client(
    service: str, region: str | None = None, session: Any = None, silence: float = SILENCE
) -> Any:
    """A client of boto3 whose calls outlast an outage (repeats.py); `session`: shared with other
    clients."""
    from botocore.config import Config

    once = {"mode": "standard", "total_max_attempts": 1}
    config = Config(connect_timeout=5, read_timeout=silence, retries=once)
    client = (session or boto_session()).client(service, region_name=region, config=config)
    client.meta.events.register("needs-retry", _repeats)
    client.meta.events.register("before-parse", _check_length)
    return client


def call(client: Any, operation: str, **parameters: Any) -> Any:
    """The response to a call of `boto_client`; also repeats a call whose response was cut off."""
    outage = Outage()
    while True:
        try:
            return getattr(client, operation)(**parameters)
        except CutOff:
            if not outage.lasts():
                raise
        if "Body" in parameters:
            parameters["Body"].seek(0)


class CutOff(OSError):
    """A response ended early."""


def _check_length(operation_model: Any, response_dict: Any, **_: Any) -> None:
    """Raise CutOff for a truncated body. botocore (1.44.5) does not: truncated XML is a
    ResponseParserError, not a BotoCoreError; truncated JSON is a response without fields."""
    body = response_dict["body"]
    if isinstance(body, bytes) and operation_model.http.get("method") != "HEAD":
        length = response_dict["headers"].get("content-length", "")
        if length.isdigit() and len(body) < int(length):
            name = operation_model.name
            raise CutOff(f"the response to {name} ended after {len(body)} of {length} bytes")


def _repeats(
    response: Any, caught_exception: Exception | None, request_dict: Any, **_: Any
) -> int | None:
    """botocore's retry handler, called after each try: 0 repeats the call at once, None ends it."""
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError, SSLError

    if response is None:
        network = isinstance(caught_exception, (NoConnection, HTTPClientError))
        passes = network and not isinstance(caught_exception, SSLError)
    else:
        http, parsed = response
        code = str(parsed.get("Error", {}).get("Code", ""))
        busy = http.status_code in OVERLOADED and not NO_CAPACITY.search(code)
        passes = busy or bool(THROTTLED.search(code))
    if not passes:
        return None
    outage = request_dict["context"].setdefault("railhead_outage", Outage())
    return 0 if outage.lasts() else None


def boto_session() -> Any:
    """A session of boto3, with the user's credentials and region."""
    import boto3
    from botocore.session import get_session

    core = get_session()
    core.register_component("data_loader", _service_models(core.get_config_variable("data_path")))
    if not core.get_config_variable("ca_bundle"):
        core.set_config_variable("ca_bundle", certificates.trusted())
    return boto3.Session(botocore_session=core)


@cache
def _service_models(folders: str | None) -> Any:
    """The loader of AWS's service descriptions, shared by all sessions of this process: to read
    them again takes 0.1 s of CPU time per client."""
    from botocore.loaders import create_loader

    return create_loader(folders)


def open_objects(name: str, silence: float = SILENCE) -> S3Objects:
    """A bucket, with the credentials of this machine's role."""
    client = boto_client("s3", silence=silence)
    return S3Objects(lambda _, operation, **values: call(client, operation, **values), name)


def code_of(error: Exception) -> str:
    """The code in an error of botocore (not imported here); "" in other errors."""
    answer = getattr(error, "response", None)  # None in a network error
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


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
        return self._pieces(self.call("get_object", Key=key), key)

    def _pieces(self, answer: Any, key: str) -> Iterator[bytes]:
        """The bytes of an answer; after a broken connection, it continues with the same version.
        Such a continuation has no hash of the whole object: the callers compare their own."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        body, version, position, outage = answer["Body"], answer.get("ETag"), 0, Outage()
        while True:
            try:
                if not (data := body.read(CHUNK)):
                    return
            except (HTTPClientError, IncompleteReadError):
                if version is None or not outage.lasts():
                    raise
                rest = {"Range": f"bytes={position}-", "IfMatch": version}
                answer = self.call("get_object", Key=key, **rest)
                if not answer.get("ContentRange", "").startswith(f"bytes {position}-"):
                    raise OSError(f"the rest of {key} does not come as a range") from None
                body = answer["Body"]
                continue
            position, outage = position + len(data), Outage()
            yield data

    def write(self, key: str, data: bytes, *, short_lived: bool = False) -> None:
        """Create an object. S3 refuses bytes that do not match the sha256 sent with them."""
        self._write(key, data, short_lived)

    def look(self, key: str) -> Stored | None:
        """An object with its ETag; None if there is none."""
        try:
            answer = self.call("get_object", Key=key)
        except Exception as error:
            if code_of(error) == "NoSuchKey":
                return None
            raise
        return Stored(joined(self._pieces(answer, key), key), answer["ETag"])

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        """Create an object that does not exist yet; returns its ETag, or None if it exists."""
        return self._write_if(key, data, short_lived, IfNoneMatch="*")

    def replace(
        self, key: str, data: bytes, version: str, *, short_lived: bool = False
    ) -> str | None:
        """Replace an object that has this ETag; returns the new one, or None if it has another one
        now. An ETag identifies content: the new content must differ from all earlier ones."""
        return self._write_if(key, data, short_lived, IfMatch=version)

    def _write_if(self, key: str, data: bytes, short_lived: bool, **condition: str) -> str | None:
        try:
            return str(self._write(key, data, short_lived, **condition)["ETag"])
        except Exception as error:
            if code_of(error) in REFUSED:
                return None
            if code_of(error) == IN_PROGRESS:
                raise WriteInProgress(key) from error
            raise

    def _write(self, key: str, data: bytes, short_lived: bool, **condition: str) -> Any:
        """Create an object in one request."""
        digest = encoded(hashlib.sha256(data).digest())

        def put(**options: str) -> Any:
            # As a stream, so that the timeout applies to each chunk, not to the whole upload.
            options |= {"Key": key, "ChecksumSHA256": digest, **condition}
            return self.call("put_object", Body=io.BytesIO(data), **options)

        return _tagged(put, short_lived)

    def upload(self, key: str, path: Path, sha256: str, *, short_lived: bool = False) -> None:
        """Create an object from a file. S3 refuses bytes that do not match the sha256 of the file,
        or of a part of it. A tag makes it short-lived. Without permission to set tags it has no
        tag, and its old versions are kept as long as those of other objects."""
        put = self._upload_parts if path.stat().st_size > PART else self._put
        _tagged(lambda **tags: put(key, path, sha256, **tags), short_lived)

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


def _tagged(put: Callable[..., Any], short_lived: bool) -> Any:
    """Write an object, with the tag of short-lived ones if that is wanted and permitted."""
    if short_lived:
        try:
            return put(Tagging="=".join(SHORT_LIVED))
        except Exception as error:
            if code_of(error) != "AccessDenied":
                raise
    return put()
