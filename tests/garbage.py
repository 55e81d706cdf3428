"""What the tests and their modules consist of stays to the end: it is never searched for garbage.

It is a pytest plugin; tests/conftest.py loads it. Ten thousand tests are a million objects. Python
would visit them all again and again while they are collected, and later during the tests; and a
fork would copy the pages that have them.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests, but no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
