"""The steps of an epoch that ends early, with a stand-in for TensorFlow: the plan is arithmetic."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("numpy", reason="scripts/setup --dev installs it")


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """training.input_pipeline; other tests do not see it."""
    for name in ("tensorflow", "tensorflow.python.data.ops"):
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    before = set(sys.modules)
    yield importlib.import_module("training.input_pipeline")
    for name in set(sys.modules) - before:
        if name.startswith("training."):
            del sys.modules[name]


@pytest.mark.parametrize(("done", "remaining"), [(0, 5), (64, 4), (256, 1)])
def test_an_epoch_that_ends_early_ends_there_also_after_an_interruption(
    pipeline: Any, done: int, remaining: int
) -> None:
    """1000 samples are 16 steps of 64; `steps_per_epoch` is 5, in the first epoch and the next."""
    plan = pipeline.Plan(1000, 64, 1, 1, steps=5, seed=7, training=True, first_epoch=2, start=done)
    assert [plan.steps_of(epoch) for epoch in (2, 3, 9)] == [remaining, 5, 5]
    assert len(list(plan.shares(2, 0))) == remaining
