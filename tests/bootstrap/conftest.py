"""What several tests of this room start from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bootstrap.facts import HostFacts, parse

CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture(scope="session")
def debian() -> HostFacts:
    """The facts of a Debian 12 host, 192.0.2.2 in 192.0.2.0/24, that has every part."""
    held = json.loads((CASES / "facts/debian-12.json").read_text())
    return parse("\n".join(held["output"]))
