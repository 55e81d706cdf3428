"""Places in real object stores: functions from a prefix to a URI in a new bucket; and the cases
that need TensorFlow, with the process that runs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standins.runtime_cases import CaseModule, Runtime
from standins.stores.object_stores import S3, Gcs

NUMBERS = itertools.count()


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """In S3 and in Google Cloud Storage."""
    server: S3 | Gcs = request.getfixturevalue("s3_store" if request.param == "s3" else "gcs_store")
    return bucket(server, monkeypatch)


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """In S3 alone."""
    return bucket(s3_store, monkeypatch)


def bucket(server: S3 | Gcs, patch: pytest.MonkeyPatch) -> Callable[[str], str]:
    for name, value in server.environ.items():
        patch.setenv(name, value)
    name = f"data-{next(NUMBERS)}"
    server.make_bucket(name)
    return lambda prefix: server.uri(name, prefix)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Files of cases are run by a runtime's python."""
    if not module_path.name.startswith("cases_"):
        return None
    module: pytest.Module = CaseModule.from_parent(parent, path=module_path)
    return module


@pytest.fixture(scope="session")
def runtime(runtime_python: str) -> Iterator[Runtime]:
    """The process that runs cases, one for all modules: TensorFlow takes seconds to import."""
    runtime = Runtime(runtime_python)
    yield runtime
    runtime.close()
