"""The shells in which the tests of this room run the script of the facts."""

from __future__ import annotations

import shutil

import pytest

SHELLS = [s for s in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(s[0])]


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """The words that start a POSIX shell; each is tried."""
    return [str(shutil.which(request.param[0])), *request.param[1:]]
