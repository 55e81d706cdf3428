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
    answers = await asyncio.gather(*map(batcher.predict, calls), return_exceptions=True)
    return [str(x) if isinstance(x, BaseException) else x["y"].tolist() for x in answers]


def test_requests_share_calls_and_get_their_own_rows() -> None:
    model = Model()
    calls = [rows(n, n + 100) for n in range(10)]
    answers = batched(model, lambda batcher: all_of(batcher, *calls))
    assert answers == [[n, n + 100] for n in range(10)]
    assert model.sizes == [8, 8, 4]


def test_batches_are_padded_to_the_fixed_sizes() -> None:
    model = Model()
    answers = batched(model, lambda batcher: all_of(batcher, rows(1), rows(2), rows(3)))
    assert answers == [[1], [2], [3]] and model.sizes == [4]


@pytest.mark.parametrize(
    ("count", "width", "sizes"),
    [
        (19, 1, [32]),  # padded to the next power of two
        (600, 1, [256, 256, 128]),  # 32 times max_batch
        (40, 62_500, [8] * 5),  # 500,000 bytes a row: max_batch has 4,000,000
        (40, 31_250, [16, 16, 8]),
        (3, 1_000_000, [4]),
    ],
)
def test_a_large_request_is_computed_in_large_parts(
    count: int, width: int, sizes: list[int]
) -> None:
    model = Model()
    call = rows(*range(count), width=width)
    answers = batched(model, lambda batcher: all_of(batcher, call))
    assert answers == [[number * width for number in range(count)]] and model.sizes == sizes


def test_inputs_with_other_numbers_of_rows_are_a_call_of_their_own() -> None:
    """As the column form allows: the model decides what they mean."""
    pair = Signature(
        "s",
        (Tensor("x", "float64", (None,)), Tensor("y", "float64", (None,))),
        (Tensor("z", "float64", (None,)),),
    )
    calls: list[tuple[int, int]] = []

    def outer(values: Any) -> dict[str, Any]:
        calls.append((len(values["x"]), len(values["y"])))
        return {"z": np.outer(values["x"], values["y"]).ravel()}

    async def work() -> Any:
        with ThreadPoolExecutor(1) as pool:
            settings = ServeSettings(Path(), "m", max_batch=8)
            batcher = Batcher(outer, pair, settings, ServingMetrics(), pool)
            try:
                return await batcher.predict({"x": np.array([2.0]), "y": np.arange(20.0)})
            finally:
                batcher.close()

    assert asyncio.run(work())["z"].tolist() == [2.0 * n for n in range(20)]
    assert calls == [(1, 20)]


def test_the_latency_is_that_of_answered_predictions() -> None:
    metrics = ServingMetrics()
    for code, seconds in ((200, 2.0), (503, 0.0), (400, 0.0), (403, 0.0)):
        metrics.count_request("predict", code, seconds)
    metrics.count_request("status", 200, 0.0)
    value = metrics.registry.get_sample_value
    assert [value(f"railhead_predict_seconds_{name}") for name in ("count", "sum")] == [1, 2.0]
    assert metrics.requests == 5


def test_samples_of_other_lengths_are_not_joined() -> None:
    model = Model()
    answers = batched(
        model, lambda batcher: all_of(batcher, rows(1, width=2), rows(1, width=3), rows(2, width=2))
    )
    assert answers == [[2], [3], [4]] and sorted(model.sizes) == [1, 2]


def test_a_request_that_fails_does_not_fail_the_others() -> None:
    answers = batched(Model(), lambda batcher: all_of(batcher, rows(1), rows(-1), rows(3)))
    assert answers == [[1], "a negative number", [3]]


def test_without_batches_each_request_is_a_call() -> None:
    model = Model()
    answers = batched(model, lambda batcher: all_of(batcher, rows(1), rows(2)), max_batch=1)
    assert answers == [[1], [2]] and model.sizes == [1, 1]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_client_that_has_gone_holds_up_nobody(gone: int) -> None:
    """The call of the first one is in the model, the others wait."""
    model = Model()

    async def work(batcher: Batcher) -> Any:
        model.free.clear()
        first = asyncio.create_task(batcher.predict(rows(1)))
        while batcher._waiting or not first:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)  # the first batch is in the model
        tasks = [first, *(asyncio.create_task(batcher.predict(rows(n))) for n in (2, 3))]
        await asyncio.sleep(0)
        tasks[gone].cancel()
        model.free.set()
        return [(await task)["y"].tolist() for task in tasks if task is not tasks[gone]]

    assert batched(model, work) == [[n] for n in (1, 2, 3) if n != gone + 1]
