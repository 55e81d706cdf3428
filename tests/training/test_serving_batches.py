"""Concurrent requests become batches, each answered with its own rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.serving.batching import Batcher
from training.serving.metrics import ServingMetrics
from training.serving.settings import ServeSettings
from training.serving.signature import Signature, Tensor

SIGNATURE = Signature(
    "s", (Tensor("x", "float64", (None, None)),), (Tensor("y", "float64", (None,)),)
)


class Model:
    """Sums the rows; notes the sizes of its batches, and fails for a negative number."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, values: Any) -> dict[str, Any]:
        self.free.wait(30)
        self.sizes.append(len(values["x"]))
        if (values["x"] < 0).any():
            raise ValueError("a negative number")
        return {"y": values["x"].sum(axis=1)}


def batched(
    model: Model, work: Callable[[Batcher], Coroutine[Any, Any, Any]], **changes: Any
) -> Any:
    """Run `work` with a batcher of this model."""
    settings = ServeSettings(Path(), "m", **{"max_batch": 8, "max_delay_ms": 20, **changes})

    async def run() -> Any:
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(model, SIGNATURE, settings, ServingMetrics(), pool)
            try:
                return await asyncio.wait_for(work(batcher), 30)
            finally:
                batcher.close()

    return asyncio.run(run())


def rows(*numbers: float, width: int = 1) -> dict[str, Any]:
    return {"x": np.array([[number] * width for number in numbers], dtype=float)}


async def all_of(batcher: Batcher, *calls: dict[str, Any]) -> list[Any]:
    found = await asyncio.gather(*map(batcher.predict, calls), return_exceptions=True)
    return [str(x) if isinstance(x, BaseException) else x["y"].tolist() for x in found]


def test_requests_share_calls_and_get_their_own_rows() -> None:
    model = Model()
    calls = [rows(n, n + 100) for n in range(10)]
    found = batched(model, lambda batcher: all_of(batcher, *calls))
    assert found == [[n, n + 100] for n in range(10)]
    assert model.sizes == [8, 8, 4]


def test_batches_are_padded_to_the_fixed_sizes() -> None:
    model = Model()
    found = batched(model, lambda batcher: all_of(batcher, rows(1), rows(2), rows(3)))
    assert found == [[1], [2], [3]] and model.sizes == [4]


def test_a_large_request_is_computed_in_parts() -> None:
    model = Model()
    found = batched(model, lambda batcher: all_of(batcher, rows(*range(19))))
    assert found == [list(range(19))] and model.sizes == [8, 8, 4]


def test_samples_of_other_lengths_are_not_joined() -> None:
    model = Model()
    found = batched(
        model, lambda batcher: all_of(batcher, rows(1, width=2), rows(1, width=3), rows(2, width=2))
    )
    assert found == [[2], [3], [4]] and sorted(model.sizes) == [1, 2]


def test_a_request_that_fails_does_not_fail_the_others() -> None:
    found = batched(Model(), lambda batcher: all_of(batcher, rows(1), rows(-1), rows(3)))
    assert found == [[1], "a negative number", [3]]


def test_without_batches_each_request_is_a_call() -> None:
    model = Model()
    found = batched(model, lambda batcher: all_of(batcher, rows(1), rows(2)), max_batch=1)
    assert found == [[1], [2]] and model.sizes == [1, 1]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_client_that_has_gone_holds_up_nobody(gone: int) -> None:
    model = Model()

    async def work(batcher: Batcher) -> Any:
        model.free.clear()
        first = asyncio.create_task(batcher.predict(rows(1)))
        while batcher._waiting or not first:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)  # the first batch is in the model
        tasks = [asyncio.create_task(batcher.predict(rows(n))) for n in (2, 3)]
        await asyncio.sleep(0)
        tasks[gone].cancel()
        model.free.set()
        return (await tasks[1 - gone])["y"].tolist(), (await first)["y"].tolist()

    assert batched(model, work) == ([3 - gone], [1])
