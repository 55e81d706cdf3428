"""Which files of tests one worker of pytest-xdist runs, because they share what it starts once.

It is a pytest plugin; tests/conftest.py loads it. All other files are distributed one by one
(`--dist loadfile`), the longest first (tests/time_budgets.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from typing import Any

import pytest

# The modules of a cloud's Pulumi package and of its stand-in take a worker 8 CPU seconds.
AWS = ("aws*", "broken_up", "cloud_clean_up", "deadlines", "doctor", "leaks")
CLOUDS = (
    *("gcp*", "broken_up_gcp", "broken_resize", "former_names", "kills", "launches"),
    *("lost_states", "moved_stacks"),
)
SHARED: Mapping[str, tuple[str, ...]] = {
    "AWS on the engine": tuple(f"tests/engine/test_{name}.py" for name in AWS),
    "both clouds on the engine": tuple(f"tests/engine/test_{name}.py" for name in CLOUDS),
    "the process that runs cases": ("tests/training/*cases_*.py",),
    "forks of a process with TensorFlow": (
        "tests/training/strategies/test_strategies.py",
        "tests/keras_patches/test_horovod.py",
    ),
    "the training of local hosts": (
        "tests/e2e/serving/test_serving.py",
        "tests/e2e/runs/test_resume.py",
    ),
}


def unit(node: str) -> str:
    """What a test is distributed with: the name of what its file shares, or its file."""
    return unit_of(node.partition("::")[0])


@cache
def unit_of(file: str) -> str:
    """The same of a file."""
    shared = (name for name, files in SHARED.items() if any(fnmatch(file, one) for one in files))
    return next(shared, file)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which mutmut runs without
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`, a scheduler that knows the units."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Units(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    return Units(config, log)
