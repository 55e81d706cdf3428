"""The real engine, for the tests in this folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from engine import stack


@pytest.fixture(scope="session")
def engine(shared_caches: Path) -> Path:
    """The folder of the Pulumi CLI. RAILHEAD_ENGINE=required makes its absence an error."""
    if found := stack.find(shared_caches):
        return found
    reason = "there is no Pulumi CLI, on PATH or in the cache; to build it: make test-engine"
    if os.environ.get("RAILHEAD_ENGINE") == "required":
        raise RuntimeError(reason)
    pytest.skip(reason)
