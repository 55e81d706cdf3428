"""Read and write data in a local folder, in S3 and in Google Cloud Storage, with one interface.

A name is a path with slashes below the URI. Buckets are read with obstore; credentials come from
the environment, else from the machine's role or service account. `s3_endpoint` determines another
server for S3, `STORAGE_EMULATOR_HOST` one for Google.

A store reads one version of each file, the first that it sees: another one is a DataError.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from railhead.documents import s3_endpoint
from railhead.documents.uri import BucketUri

from . import DataError
from .uri import DataSource

T = TypeVar("T")
TRIES = 4  # of one range, in addition to the client's own retries
PART = 8 << 20  # bytes of one part of an upload
# A stalled connection is given up after READ_TIMEOUT; a refused one is tried for RETRY_TIMEOUT.
READ_TIMEOUT = timedelta(seconds=30)
RETRY_TIMEOUT = timedelta(seconds=60)
REGION_SECONDS = 10
_ONE_AT_A_TIME = threading.Lock()  # changes a variable of this process


@dataclass(frozen=True)
class Item:
    """A file or an object; another `etag` means another content."""

    name: str
    bytes: int
    etag: str


class NothingThereError(DataError):
    """There is no file or object at the URI."""


class Store(Protocol):
    """Data at one URI. Every method raises DataError with the URI and the cause."""

    uri: str

    def items(self) -> list[Item]:
        """Everything below the URI, by name; NothingThereError if there is nothing."""

    def read(self, name: str) -> bytes:
        """A small file, whole."""

    def read_range(self, name: str, start: int, end: int) -> Any:
        """The bytes [start, end) of a file, as a bytes-like object of that length."""

    def put(self, name: str, content: Path | bytes) -> None:
        """Write a file completely or not at all."""


def open_store(uri: str) -> Store:
    """The store at a local path, an s3:// or a gs:// URI."""
    data = DataSource(uri)
    return Bucket(data.location) if data.location else Folder(data.path)


# --- A local folder ------------------------------------------------------------------------


class Folder:
    """A folder, or a folder with one file if the path is a file."""

    def __init__(self, path: Path) -> None:
        self.uri, self.path = str(path), path
        self.root = path.parent if path.is_file() else path
        self.etags: dict[str, str] = {}

    def items(self) -> list[Item]:
        paths = [self.path] if self.path.is_file() else sorted(self.path.rglob("*"))
        items = [self._item(path) for path in paths if path.is_file()]
        if not items:
            reason = "holds no files" if self.path.is_dir() else "does not exist"
            raise NothingThereError(f"{self.uri} {reason}")
        for item in items:
            self.etags.setdefault(item.name, item.etag)
        return items

    def _item(self, path: Path) -> Item:
        status = path.stat()
        return Item(path.relative_to(self.root).as_posix(), status.st_size, etag_of(status))

    def read(self, name: str) -> bytes:
        try:
            return (self.root / name).read_bytes()
        except OSError as error:
            raise DataError(f"{self.root / name}: {error.strerror}") from None

    def read_range(self, name: str, start: int, end: int) -> bytes:
        path = self.root / name
        try:
            with path.open("rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                data = os.pread(file.fileno(), max(0, min(end, status.st_size) - start), start)
                etag = etag_of(status)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None
        if etag != self.etags.setdefault(name, etag):
            raise replaced(str(path))
        return checked(data, str(path), start, end)

    def put(self, name: str, content: Path | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.etags.pop(name, None)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".partial-", delete=False) as out:
            partial = Path(out.name)
            try:
                for piece in pieces(content):
                    out.write(piece)
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise


def etag_of(status: os.stat_result) -> str:
    """The version of a file."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def bare(etag: str | None) -> str:
    """An ETag without its quotes, which not every list has; empty if there is none."""
    return (etag or "").strip('"')


def replaced(path: str) -> DataError:
    """The error for a file that has changed since it was first seen."""
    return DataError(f"{path} was replaced while it was read. Start again: nothing is mixed")


def pieces(content: Path | bytes) -> Iterator[bytes]:
    """The content in parts."""
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def checked(data: T, name: str, start: int, end: int) -> T:
    """Refuse a range that is shorter than it should be."""
    if (size := len(memoryview(data))) != end - start:  # type: ignore[arg-type]
        raise DataError(f"{name} ends after {start + size} bytes, not after {end} or more")
    return data


# --- A bucket ------------------------------------------------------------------------------


class Bucket:
    """The objects below a prefix of a bucket."""

    def __init__(self, place: BucketUri) -> None:
        import obstore

        self.uri, self.place = str(place), place
        self.obstore: Any = obstore
        self.etags: dict[str, str] = {}
        with no_panic(self.uri):
            self.client = connected(place)

    def items(self) -> list[Item]:
        items = self._try(self._items)
        if not items and self.place.prefix:
            items = [self._try(self._only)]
        if not items:
            raise NothingThereError(f"{self.uri} holds no objects")
        for item in items:
            self.etags.setdefault(item.name, item.etag)
        return sorted(items, key=lambda item: item.name)

    def _items(self) -> list[Item]:
        begin = len(self.place.folder)
        items = [
            Item(entry["path"][begin:], entry["size"], bare(entry["e_tag"]))
            for page in self.obstore.list(self.client, self.place.prefix or None)
            for entry in page
        ]
        # Consoles and pyarrow make an empty object `a/` for a folder, and obstore lists it as `a`.
        names = [item.name for item in items]
        folders = {"", *(name[:i] for name in names for i, char in enumerate(name) if char == "/")}
        return [
            item
            for item in items
            if item.bytes or (item.name not in folders and self._exists(item.name))
        ]

    def _exists(self, name: str) -> bool:
        """Whether an object has this name: an empty `a/` is listed as `a`, and there is no `a`."""
        try:
            self.obstore.head(self.client, self.place.key(name))
        except FileNotFoundError:
            return False
        return True

    def _only(self) -> Item:
        """The URI as the name of one object; the store is then the prefix that contains it."""
        entry = self.obstore.head(self.client, self.place.prefix)
        prefix, _, name = self.place.prefix.rpartition("/")
        self.place = BucketUri(self.place.scheme, self.place.bucket, prefix)
        return Item(name, entry["size"], bare(entry["e_tag"]))

    def read(self, name: str) -> bytes:
        key = self.place.key(name)
        data: bytes = self._try(
            lambda: self.obstore.get(self.client, key).bytes().to_bytes(), name, tries=TRIES
        )
        return data

    def read_range(self, name: str, start: int, end: int) -> Any:
        if start == end:
            return b""
        key = self.place.key(name)
        options: Any = {"range": (start, end)}
        if etag := self.etags.get(name):
            options["if_match"] = f'"{etag}"'

        def get() -> Any:
            answer = self.obstore.get(self.client, key, options=options)
            return answer.bytes(), bare(answer.meta["e_tag"])

        data, etag = self._try(get, name, tries=TRIES)
        if etag and etag != self.etags.setdefault(name, etag):
            raise replaced(f"{self.uri}/{name}")
        return checked(data, f"{self.uri}/{name}", start, end)

    def put(self, name: str, content: Path | bytes) -> None:
        key = self.place.key(name)
        self.etags.pop(name, None)
        self._try(lambda: self.obstore.put(self.client, key, content, chunk_size=PART), name)

    def _try(self, call: Callable[[], T], name: str = "", *, tries: int = 1) -> T:
        """Call, and again if the connection failed; errors become DataErrors."""
        from obstore.exceptions import BaseError

        for tries_left in reversed(range(tries)):
            try:
                with no_panic(f"{self.uri}/{name}" if name else self.uri):
                    return call()
            except (BaseError, OSError) as error:
                if not tries_left or cause_of(error):
                    raise self._failed(error, name) from None
        raise AssertionError("tries is at least 1")

    def _failed(self, error: Exception, name: str) -> DataError:
        uri = f"{self.uri}/{name}" if name else self.uri
        cause = cause_of(error)
        if cause == "replaced":
            return replaced(uri)
        advice = {
            "bucket": f"there is no bucket {self.place.url}",
            "missing": f"there is no {uri}",
            "region": f"the bucket of {uri} is in another region: set AWS_REGION"
            + (f"={region}" if (region := first(r"<Region>([\w-]+)", error)) else ""),
            "refused": f"{uri} is refused ({reason_of(error)}). Hosts of a stack get the right to "
            "read by its key `data_buckets`; other hosts need credentials, by --secret",
            "credentials": f"there are no credentials for {uri}. Hosts of a stack have them if its "
            "key `data_buckets` names the bucket; other hosts get them by --secret "
            + SECRETS[self.place.scheme],
            "range": f"{uri} is shorter than it should be",
        }
        kind = NothingThereError if cause == "missing" else DataError
        return kind(advice.get(cause, f"{uri} cannot be read: {reason_of(error)}"))


@contextlib.contextmanager
def no_panic(uri: str) -> Iterator[None]:
    """DataError for a panic in obstore's Rust part, which is a BaseException."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{uri} cannot be read: obstore failed: {error}") from None


SECRETS = {
    "s3": "AWS_ACCESS_KEY_ID and --secret AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT_KEY",
}
CAUSES = {
    "replaced": r"status code: 412|PreconditionFailed",
    "credentials": r"/latest/api/token|/latest/meta-data/|/computeMetadata/|169\.254\.",
    "bucket": r"NoSuchBucket|no bucket named",
    "region": r"AuthorizationHeaderMalformed|PermanentRedirect|status code: 301|bare redirect",
    "refused": r"status code: 40[13]",
    "range": r"status code: 416",
    "missing": r"status code: 404",
}


def cause_of(error: Exception) -> str:
    """What a store's error means, if a retry does not help; empty for other errors."""
    text = str(error)
    for cause, pattern in CAUSES.items():
        if re.search(pattern, text):
            return cause
    return ""


def reason_of(error: Exception) -> str:
    """The server's code or the first line. The rest of the message may hold a key's name."""
    if code := first(r"<Code>(\w+)</Code>", error):
        return code
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return line.rpartition("Error performing ")[2][:200]


def first(pattern: str, error: Exception) -> str:
    """The first group of a pattern in an error's message."""
    match = re.search(pattern, str(error))
    return match[1] if match else ""


def connected(place: BucketUri) -> Any:
    """A client of the bucket; nothing is requested yet, except S3's region if it is not set."""
    from obstore import store

    options: Any = {
        "client_options": {
            "allow_http": endpoint_of(place.scheme).startswith("http://"),
            "read_timeout": READ_TIMEOUT,
            "timeout": timedelta(minutes=10),
        },
        "retry_config": {"retry_timeout": RETRY_TIMEOUT},
    }
    if place.scheme == "gs":
        if emulator := endpoint_of("gs"):
            account = {"gcs_base_url": emulator, "disable_oauth": True}
            account |= {"client_email": "", "private_key": "", "private_key_id": ""}
            options["service_account_key"] = json.dumps(account)
        return store.GCSStore(place.bucket, **options)
    region = region_of(place.bucket)
    # Always passed: obstore itself would use AWS_ENDPOINT_URL even if the user has switched it off.
    options["endpoint"] = endpoint_of("s3") or own_endpoint(region)
    with _trusting(os.environ.get("AWS_CA_BUNDLE")):
        return store.S3Store(place.bucket, region=region, **options)


@contextlib.contextmanager
def _trusting(authorities: str | None) -> Iterator[None]:
    """obstore (0.11.1) reads SSL_CERT_FILE when it makes a client, and not AWS's own variable."""
    with _ONE_AT_A_TIME:
        if not authorities or "SSL_CERT_FILE" in os.environ:
            yield
            return
        os.environ["SSL_CERT_FILE"] = authorities
        try:
            yield
        finally:
            del os.environ["SSL_CERT_FILE"]


def endpoint_of(scheme: str) -> str:
    """Another server than the cloud's own; empty if there is none."""
    if scheme == "s3":
        return s3_endpoint.address()
    host = os.environ.get("STORAGE_EMULATOR_HOST") or ""
    return host if "://" in host or not host else f"http://{host}"


def own_endpoint(region: str) -> str:
    """S3's address in a region."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://s3.{region}.{domain}"


def region_of(bucket: str) -> str:
    """The region from the environment; else from S3, which reveals a bucket's region to anybody."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(variable):
            return os.environ[variable]
    if endpoint_of("s3"):
        return "us-east-1"
    request = urllib.request.Request(f"https://s3.amazonaws.com/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=REGION_SECONDS) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:  # also a refusal names the region
        headers = error.headers
    except OSError:
        return "us-east-1"
    return headers.get("x-amz-bucket-region") or "us-east-1"
