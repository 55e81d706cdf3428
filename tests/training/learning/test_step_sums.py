"""The sums of a batch, with numpy in the place of TensorFlow: padding counts as nothing."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="scripts/setup --dev installs it")


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """training.learning.step over numpy; other tests do not see it."""
    stand_in: Any = types.ModuleType("tensorflow")
    stand_in.where, stand_in.reduce_sum, stand_in.stack = np.where, np.sum, np.stack
    monkeypatch.setitem(sys.modules, "tensorflow", stand_in)
    before = set(sys.modules)
    yield importlib.import_module("training.learning.step")
    for name in set(sys.modules) - before:
        if name.startswith("training."):
            del sys.modules[name]


@pytest.mark.parametrize("loss", [5.0, float("nan"), float("inf")])
def test_padding_counts_in_no_sum(step: Any, loss: float) -> None:
    """Two real samples and one of padding. Its loss may not be a number; its score is right."""
    weights = np.array([1.0, 1.0, 0.0])
    sums = step.sums(np.array([1.0, 2.0, loss]), np.array([1.0, 0.0, 1.0]), weights)
    assert sums.tolist() == [3.0, 2.0, 1.0]
