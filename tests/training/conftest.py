"""Places in real object stores: functions from a prefix to a URI in a new bucket."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from standins.object_stores import S3, Gcs

NUMBERS = itertools.count()


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """In S3 and in Google Cloud Storage."""
    found: S3 | Gcs = request.getfixturevalue("s3_store" if request.param == "s3" else "gcs_store")
    return bucket(found, monkeypatch)


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """In S3 alone."""
    return bucket(s3_store, monkeypatch)


def bucket(found: S3 | Gcs, patch: pytest.MonkeyPatch) -> Callable[[str], str]:
    for name, value in found.environ.items():
        patch.setenv(name, value)
    name = f"data-{next(NUMBERS)}"
    found.make_bucket(name)
    return lambda prefix: found.uri(name, prefix)
