"""The real engine, for the tests in this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import gcp as google
from engine import stack
from engine.aws import OnAws, fresh
from standins.aws.cloud import Cloud


@pytest.fixture(scope="session")
def engine(shared_caches: Path) -> Path:
    """The folder of the Pulumi CLI. RAILHEAD_ENGINE=required makes its absence an error."""
    if found := stack.find(shared_caches):
        return found
    reason = "there is no Pulumi CLI, on PATH or in the cache; to build it: make test-engine"
    if os.environ.get("RAILHEAD_ENGINE") == "required":
        raise RuntimeError(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """AWS, as moto has it; `aws` empties it before each test."""
    with Cloud() as made:
        yield made


@pytest.fixture
def aws(cloud: Cloud, engine: Path, tmp_path: Path) -> Iterator[OnAws]:
    with fresh(cloud, engine, tmp_path) as made:
        yield made


@pytest.fixture
def gcp(engine: Path, tmp_path: Path) -> Iterator[google.OnGcp]:
    with google.fresh(engine, tmp_path) as made:
        yield made
