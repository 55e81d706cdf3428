"""What tests of the programs on a host start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.runs.supervisor_here import SupervisorHere


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SupervisorHere:
    """A run of two ranks on two hosts, whose supervisor is in this process."""
    return SupervisorHere(tmp_path / "r1", monkeypatch)
