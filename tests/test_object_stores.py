"""The object stores that tests run against, with the client that Railhead uses."""

from __future__ import annotations

import json
from pathlib import Path

import obstore
import pytest
from obstore.store import GCSStore, S3Store
from standins.stores import object_stores, servers
from standins.stores.object_stores import S3, Gcs

CONTENT = bytes(range(256)) * 50_000  # 12.8 MB: obstore uploads it in parts


def client(store: S3 | Gcs) -> S3Store | GCSStore:
    store.make_bucket("mine")
    if isinstance(store, S3):
        return S3Store(
            "mine",
            endpoint=store.endpoint,
            region=object_stores.REGION,
            access_key_id=object_stores.KEY,
            secret_access_key=object_stores.SECRET,
            client_options={"allow_http": True},
        )
    account = {"gcs_base_url": store.endpoint, "disable_oauth": True}
    account |= {"client_email": "", "private_key": "", "private_key_id": ""}
    return GCSStore(
        "mine", service_account_key=json.dumps(account), client_options={"allow_http": True}
    )


@pytest.mark.parametrize("fixture", ["s3_store", "gcs_store"])
def test_what_is_put_by_either_side_is_read_by_the_other(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue(fixture)
    here = client(store)
    store.put("mine", "a/small", b"hello")
    obstore.put(here, "a/large file", CONTENT)
    assert store.names("mine", "a/") == ["a/large file", "a/small"]
    assert store.get("mine", "a/large file") == CONTENT
    assert bytes(obstore.get_range(here, "a/large file", start=256, end=266)) == CONTENT[:10]
    listed = [item for page in obstore.list(here, "a") for item in page]
    assert {(item["path"], item["size"]) for item in listed} == {
        ("a/small", 5),
        ("a/large file", len(CONTENT)),
    }
    store.delete("mine", "a/small")
    assert store.names("mine") == ["a/large file"]


def test_without_go_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(servers.NoServer, match="no Go to build github.com/versity/versitygw"):
        servers.make("versitygw", tmp_path)


def test_no_test_builds_a_server(tmp_path: Path) -> None:
    with pytest.raises(servers.NoServer, match="python -m standins.stores.servers"):
        servers.binary("versitygw", tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo broken; exit 1"]
    endpoint = f"http://127.0.0.1:{servers.free_port()}"
    with (
        pytest.raises(RuntimeError, match="broken"),
        servers.running(command, endpoint, tmp_path / "log"),
    ):
        pass
