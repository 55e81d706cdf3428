"""A chief that holds the lease of its run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.runs.leased_chief import Chief, leased_chief
from standins.stores.object_stores import S3


@pytest.fixture
def chief(home: Path, s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chief]:
    """The chief of a run that is not started yet."""
    for name, value in s3_store.environ.items():
        monkeypatch.setenv(name, value)
    with leased_chief(home, s3_store) as chief:
        yield chief
