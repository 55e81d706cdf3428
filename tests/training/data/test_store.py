"""Data in folders, in S3 and in Google Cloud Storage, on real servers."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import obstore.store
import pytest
from standins.relay import Relay
from standins.stores import object_stores
from standins.stores.object_stores import S3, Gcs

from railhead.documents import s3_endpoint
from railhead.documents.uri import BucketUri
from training.data import DataError, store, uri

NUMBERS = itertools.count()
CONTENT = bytes(range(256)) * 40_000  # 10 MB: uploaded in parts


@pytest.fixture(params=["folder", "s3", "gs"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """A function from a prefix to a URI in a new bucket, or in a folder."""
    if request.param == "folder":
        return lambda prefix: str(tmp_path / prefix)
    server: S3 | Gcs = request.getfixturevalue("s3_store" if request.param == "s3" else "gcs_store")
    return bucket(server, monkeypatch)


def bucket(server: S3 | Gcs, patch: pytest.MonkeyPatch, **environ: str) -> Callable[[str], str]:
    for name, value in {**server.environ, **environ}.items():
        patch.setenv(name, value)
    patch.setattr(store, "RETRY_TIMEOUT", timedelta(seconds=2))
    name = f"bucket-{next(NUMBERS)}"
    server.make_bucket(name)
    return lambda prefix: server.uri(name, prefix)


@pytest.fixture(params=["s3_store", "gcs_store"])
def server(request: pytest.FixtureRequest) -> S3 | Gcs:
    """Of S3 and of Google Cloud Storage."""
    store_: S3 | Gcs = request.getfixturevalue(request.param)
    return store_


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    return bucket(s3_store, monkeypatch)


def test_what_is_written_is_listed_and_read(place: Callable[[str], str]) -> None:
    made = store.open_store(place("a"))
    made.put("x", b"hello")
    made.put("deep/large file", CONTENT)
    listed = made.items()
    assert [(item.name, item.bytes) for item in listed] == [
        ("deep/large file", len(CONTENT)),
        ("x", 5),
    ]
    assert made.read("x") == b"hello"
    assert bytes(made.read_range("deep/large file", 255, 258)) == b"\xff\x00\x01"
    assert bytes(made.read_range("x", 2, 2)) == b""
    made.put("x", b"other")
    assert bytes(made.read_range("x", 0, 5)) == b"other"
    assert made.items()[1].etag != listed[1].etag and made.items()[0] == listed[0]


def test_a_file_that_cannot_be_copied_leaves_nothing(tmp_path: Path) -> None:
    made = store.Folder(tmp_path / "store")
    made.put("x", b"whole")
    with pytest.raises(IsADirectoryError):
        made.put("x", tmp_path)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["x"]
    assert made.read("x") == b"whole"


def test_a_file_is_a_store_of_its_own(place: Callable[[str], str], tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(b"0123456789")
    store.open_store(place("a")).put("b/one", file)
    stored = store.open_store(place("a/b/one"))
    assert [(item.name, item.bytes) for item in stored.items()] == [("one", 10)]
    assert stored.read("one") == b"0123456789" and bytes(stored.read_range("one", 8, 10)) == b"89"


def test_a_folder_that_a_console_made_is_not_a_file(
    server: S3 | Gcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that pyarrow left, without any file: a/m/."""
    place = bucket(server, monkeypatch)
    name = place("").split("/")[2]
    for key in ("a/", "a/ant/", "a/ant/1.png", "a/ant/empty", "a/m/"):
        server.put(name, key, b"png" if key.endswith(".png") else b"")
    assert [item.name for item in store.open_store(place("a")).items()] == [
        "ant/1.png",
        "ant/empty",
    ]
    names = [item.name for item in store.open_store(place("")).items()]
    assert names == ["a/ant/1.png", "a/ant/empty"]


def test_what_is_not_there_is_named(place: Callable[[str], str]) -> None:
    store.open_store(place("a")).put("x", b"hello")
    with pytest.raises(DataError, match="nothing.* does not exist|there is no .*nothing"):
        store.open_store(place("nothing")).items()
    with pytest.raises(DataError, match="a/y: No such file|there is no .*a/y"):
        store.open_store(place("a")).read("y")
    with pytest.raises(DataError, match="a/y: No such file|there is no .*a/y"):
        store.open_store(place("a")).read_range("y", 0, 1)
    with pytest.raises(DataError, match="x ends after 5 bytes, not after 9"):
        store.open_store(place("a")).read_range("x", 2, 9)
    with pytest.raises(DataError, match="a/x (ends after|is shorter)"):
        store.open_store(place("a")).read_range("x", 20, 30)


def test_a_bucket_that_does_not_exist(server: S3 | Gcs, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket(server, monkeypatch)
    with pytest.raises(DataError, match=f"there is no bucket {server.scheme}://nowhere"):
        store.open_store(server.uri("nowhere", "a")).items()


def test_a_refused_read_names_the_key_to_set(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    place = bucket(s3_store, monkeypatch, **s3_store.guest)
    made = store.open_store(place("a"))
    for call in (made.items, partial(made.read, "x"), partial(made.read_range, "x", 0, 1)):
        with pytest.raises(DataError, match="AccessDenied.*`data_buckets`.*--secret"):
            call()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(DataError, match="SignatureDoesNotMatch") as failed:
        store.open_store(place("a")).items()
    assert object_stores.GUEST not in str(failed.value)


def test_a_bucket_in_another_region_is_named_with_its_region(
    s3: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with pytest.raises(DataError, match="in another region: set AWS_REGION=us-east-1"):
        store.open_store(s3("a")).items()


def test_a_server_that_is_not_there(s3: Callable[[str], str], monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(store, "TRIES", 1)
    with pytest.raises(DataError, match="a/x cannot be read: GET http://127.0.0.1:9"):
        store.open_store(s3("a")).read("x")


def test_a_connection_that_is_cut_is_tried_again(
    s3_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bucket(s3_store, monkeypatch)
    store.open_store(place("a")).put("x", CONTENT)
    with Relay(s3_store.endpoint, cut_after=1 << 20, cuts=3) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert bytes(store.open_store(place("a")).read_range("x", 0, len(CONTENT))) == CONTENT
        assert relay.was_cut == 3
    with Relay(s3_store.endpoint, cut_after=1, cuts=1000) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        with pytest.raises(DataError, match="a/x cannot be read"):
            store.open_store(place("a")).read_range("x", 0, len(CONTENT))


def test_a_server_that_stalls_is_given_up(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    place = bucket(s3_store, monkeypatch)
    store.open_store(place("a")).put("x", CONTENT)
    monkeypatch.setattr(store, "READ_TIMEOUT", timedelta(seconds=0.3))
    with Relay(s3_store.endpoint, stall_after=1 << 20, stalls=1) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert bytes(store.open_store(place("a")).read_range("x", 0, len(CONTENT))) == CONTENT


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The metadata server of a machine in AWS or Google Cloud with a role; yields its requests."""
    requests: list[str] = []
    keys = {"AccessKeyId": object_stores.KEY, "SecretAccessKey": object_stores.SECRET}
    role = {**keys, "Code": "Success", "Token": "", "Expiration": "2099-01-01T00:00:00Z"}
    role |= {"Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z"}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.answer("token")

        def do_GET(self) -> None:
            requests.append(self.path)
            name = "/latest/meta-data/iam/security-credentials/"
            self.answer(json.dumps(role) if self.path == f"{name}hosts" else "hosts")

        def answer(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield requests
    server.shutdown()


def test_a_machine_with_a_role_needs_no_keys(
    s3: Callable[[str], str], metadata: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    made = store.open_store(s3("a"))
    made.put("x", b"by a role")
    assert made.read("x") == b"by a role"
    assert metadata[-1].endswith("/security-credentials/hosts")


def test_a_machine_without_credentials_says_how_to_give_them(
    s3: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataError, match="no credentials for s3://.*`data_buckets`.*--secret AWS_"):
        store.open_store(s3("a")).items()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("s3://bkt/p/q", uri.DataSource("s3://bkt/p/q", "file")),
        ("s3://bkt/p,stream", uri.DataSource("s3://bkt/p", "stream")),
        ("/data/a,b", uri.DataSource("/data/a,b", "file")),
        ("/data/a,b,file", uri.DataSource("/data/a,b", "file")),
    ],
)
def test_the_mode_is_read_from_the_right(text: str, source: uri.DataSource) -> None:
    assert uri.parse_source(text) == source


@pytest.mark.parametrize(
    "text", ["s3://", "gs:///x", "s3://UP/x", "ftp://host/x", "s3://a_,stream"]
)
def test_wrong_uris_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="BUCKET|unknown scheme"):
        uri.parse_source(text)


def test_the_environment_gives_uris_and_modes() -> None:
    environ = {"RAILHEAD_DATA_TRAIN": "gs://bkt/x", "RAILHEAD_DATA_TRAIN_MODE": "stream"}
    environ |= {"RAILHEAD_DATA_TEST": "/data/t"}
    assert uri.from_environment(environ) == {
        "train": uri.DataSource("gs://bkt/x", "stream"),
        "test": uri.DataSource("/data/t"),
    }
    with pytest.raises(DataError, match="RAILHEAD_DATA_TRAIN_MODE is 'tape'. Choices: file, str"):
        uri.from_environment({**environ, "RAILHEAD_DATA_TRAIN_MODE": "tape"})


# --- One version -----------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [True, False])
def test_a_file_that_is_replaced_by_one_of_the_same_size_is_not_mixed(
    place: Callable[[str], str], listed: bool
) -> None:
    """By the list, or by the first range. obstore 0.11 itself returns the ranges of both."""
    store.open_store(place("a")).put("x", b"first" * 1000)
    store.open_store(place("a")).put("other", b"o")
    reader = store.open_store(place("a"))
    _ = reader.items() if listed else reader.read_range("x", 0, 5)
    store.open_store(place("a")).put("x", b"other" * 1000)
    with pytest.raises(DataError, match="a/x was replaced while it was read"):
        reader.read_range("x", 5, 10)
    assert bytes(reader.read_range("other", 0, 1)) == b"o"
    reader.items()
    with pytest.raises(DataError, match="a/x was replaced while it was read"):
        reader.read_range("x", 5, 10)


class PanicException(BaseException):
    """As pyo3_runtime raises it for a panic of Rust."""


def test_a_panic_of_the_client_is_an_error_with_the_address(
    s3: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def panics(*_: Any, **__: Any) -> Any:
        raise PanicException("called `Result::unwrap()` on an `Err` value")

    opened = store.open_store(s3("a"))
    opened.obstore = type("Client", (), {"get": panics, "list": panics})()  # type: ignore[attr-defined]
    for call in (opened.items, partial(opened.read_range, "x", 0, 1)):
        with pytest.raises(DataError, match=f"{s3('a')}.*obstore failed: called"):
            call()
    monkeypatch.setattr(store, "connected", panics)
    with pytest.raises(DataError, match=f"{s3('b')} cannot be read: obstore failed"):
        store.open_store(s3("b"))


CONFIG = """
[default]
endpoint_url = http://general
[profile two]
services = mine
endpoint_url = http://two
[services mine]
ec2 =
  endpoint_url = http://ec2
s3 =
  endpoint_url = http://s3
[profile off]
ignore_configured_endpoint_urls = true
endpoint_url = http://off
"""


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"AWS_PROFILE": "two"},
        {"AWS_DEFAULT_PROFILE": "two"},
        {"AWS_PROFILE": "two", "AWS_DEFAULT_PROFILE": "off"},
        {"AWS_PROFILE": "off"},
        {"AWS_PROFILE": "off", "AWS_ENDPOINT_URL": "http://variable"},
        {"AWS_ENDPOINT_URL": "http://variable"},
        {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://one"},
        {"AWS_ENDPOINT_URL": "http://all", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
        {"AWS_PROFILE": "two", "AWS_ENDPOINT_URL": "http://all"},
    ],
)
def test_another_server_is_the_one_that_boto3_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    boto3 = pytest.importorskip("boto3")
    (tmp_path / "config").write_text(CONFIG)
    for name in (*s3_endpoint.VARIABLES, s3_endpoint.IGNORE, *s3_endpoint.PROFILES):
        monkeypatch.delenv(name, raising=False)
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
    for name, value in {"AWS_CONFIG_FILE": str(tmp_path / "config"), **keys, **environ}.items():
        monkeypatch.setenv(name, value)
    client = boto3.Session(region_name="eu-west-1").client("s3")
    ours = store.endpoint_of("s3") or store.own_endpoint("eu-west-1")
    assert ours == client.meta.endpoint_url


@pytest.mark.parametrize("text", [b"[default\nendpoint_url = http://a", b"[default]\n\xff = 1"])
def test_a_config_file_that_cannot_be_read_names_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    (tmp_path / "config").write_bytes(text)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in (*s3_endpoint.VARIABLES, s3_endpoint.IGNORE):
        monkeypatch.delenv(name, raising=False)
    assert s3_endpoint.address() == ""


def test_clients_that_are_made_at_once_all_trust_the_authorities_of_aws_own_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """obstore reads another variable, which is set while a client is made."""
    for name in ("AWS_REGION", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, name)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    second_begins, first_is_over = threading.Event(), threading.Event()
    trusted: list[str | None] = []

    def make(*_: object, **__: object) -> None:
        if threading.current_thread() is first:
            second.start()
            second_begins.wait(0.5)
        else:
            second_begins.set()
            first_is_over.wait(60)
        trusted.append(os.environ.get("SSL_CERT_FILE"))

    def connect() -> None:
        store.connected(BucketUri("s3", "ours", ""))
        first_is_over.set()

    monkeypatch.setattr(obstore.store, "S3Store", make)
    first, second = threading.Thread(target=connect), threading.Thread(target=connect)
    first.start()
    first.join(60)
    second.join(60)
    assert trusted == ["AWS_CA_BUNDLE"] * 2 and "SSL_CERT_FILE" not in os.environ
