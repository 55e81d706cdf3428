"""A machine of Google Cloud reads buckets with its service account, in both modes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from samples.shards import make_shards, records_of
from standins.gcp.google_host import GoogleHost, on_google
from standins.stores.object_stores import Gcs

from training.data import cache
from training.data.assignment import Span
from training.data.shards import manifest, stream
from training.data.store import open_store

TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"


@pytest.fixture
def google_host(
    gcs_store: Gcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GoogleHost]:
    """The variables of such a machine; its service account reads what is in the emulator."""
    with on_google(gcs_store.endpoint, tmp_path) as host:
        for name, value in host.environ.items():
            monkeypatch.setenv(name, value)
        for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_SERVICE_ACCOUNT_KEY"):
            monkeypatch.delenv(name, raising=False)
        yield host


def test_a_service_account_reads_what_is_downloaded_and_streamed(
    google_host: GoogleHost, gcs_store: Gcs, tmp_path: Path
) -> None:
    every = make_shards(tmp_path / "a", shards=1)
    gcs_store.make_bucket("of-a-service-account")
    for path in (tmp_path / "a").iterdir():
        gcs_store.put("of-a-service-account", f"p/{path.name}", path.read_bytes())
    store = open_store("gs://of-a-service-account/p")
    folder = cache.download_all(store, store.items(), lambda text: None)
    downloaded = records_of((folder / "shard-0.tfrecord").read_bytes())
    made = stream.Stream(store, manifest.load(store))
    streamed = [
        record
        for path in made.files([Span(0, 0, 50, 0)], 1)
        for record in records_of(Path(path).read_bytes())
    ]
    assert downloaded == streamed == every
    assert set(google_host.tokens) == {TOKEN} and not google_host.refused
