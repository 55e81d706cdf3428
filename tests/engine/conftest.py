"""The real engine, for the tests in this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import stack
from engine import warm as warm_python
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


@pytest.fixture(scope="session", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs of stacks and `fab` start in forks of a Python that has imported their packages."""
    folder = tmp_path_factory.mktemp("warm")
    with warm_python.serving(folder) as socket, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.Stack, "warm", socket)
        yield


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """AWS, as moto has it; `aws` empties it before each test."""
    with Cloud() as made:
        yield made


@pytest.fixture
def aws(cloud: Cloud, engine: Path, tmp_path: Path) -> Iterator[OnAws]:
    with fresh(cloud, engine, tmp_path) as made:
        yield made
