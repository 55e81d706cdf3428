"""Concurrent requests become one call of the model.

A sample waits until the model is free and, at most, `max_delay_ms`. Batches are padded to a few
fixed sizes, so that the model has seen every shape at its warm-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .settings import ServeSettings
from .signature import Arrays, Signature, have_equal_rows, rows_of

if TYPE_CHECKING:  # needs prometheus_client, which only a server has
    from .metrics import ServingMetrics

Predict = Callable[[Arrays], dict[str, Any]]
LARGE_PART = 32  # times `max_batch`: rows of a large request in one call of the model
PART_BYTES = 4_000_000  # of their inputs, if `max_batch` rows are not more


@dataclass(eq=False)
class _Call:
    """A waiting request. `key`: calls with equal keys fit into one batch."""

    arrays: Arrays
    rows: int
    key: tuple[Any, ...]
    result: asyncio.Future[dict[str, Any]]
    arrived: float = field(default_factory=time.monotonic)


class Batcher:
    """Calls one signature of a model, from one event loop. `close` ends it."""

    def __init__(
        self,
        predict: Predict,
        signature: Signature,
        settings: ServeSettings,
        metrics: ServingMetrics,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._predict, self._signature, self._settings = predict, signature, settings
        self._metrics, self._pool = metrics, pool
        self._waiting: deque[_Call] = deque()
        self._arrived = asyncio.Event()
        self._batches = signature.batches and settings.max_batch > 1
        self._task = asyncio.create_task(self._work()) if self._batches else None

    async def predict(self, arrays: Arrays) -> dict[str, Any]:
        """The outputs for these inputs; raises InvalidRequest, and what the model raises."""
        if not self._batches or not have_equal_rows(arrays):
            return await self._in_one_call(arrays)
        rows = rows_of(arrays)
        if rows > self._settings.max_batch or not rows:
            return await self._in_parts(arrays, rows)
        future = asyncio.get_running_loop().create_future()
        key = tuple(array.shape[1:] for array in arrays.values())
        self._waiting.append(_Call(arrays, rows, key, future))
        self._arrived.set()
        result: dict[str, Any] = await future
        return result

    def close(self) -> None:
        """End the task; nothing waits any more."""
        if self._task:
            self._task.cancel()

    async def _in_one_call(self, arrays: Arrays) -> dict[str, Any]:
        """Call the model with one request as it is."""
        self._metrics.count_batch(
            max((len(array) for array in arrays.values() if array.ndim), default=1)
        )
        outputs: dict[str, Any] = await self._in_pool(self._predict, arrays)
        return outputs

    async def _in_parts(self, arrays: Arrays, rows: int) -> dict[str, Any]:
        """Call the model with parts of a large request; other requests come between them."""
        if not rows:
            return await self._in_one_call(arrays)
        self._metrics.count_batch(rows)
        most = self._rows_of_a_part(arrays, rows)
        parts = [
            {name: array[start : start + most] for name, array in arrays.items()}
            for start in range(0, rows, most)
        ]
        results = [await self._in_pool(self._padded, [arrays]) for arrays in parts]
        outputs = [outputs_of_part for (outputs_of_part,) in results]
        return {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}

    def _rows_of_a_part(self, arrays: Arrays, rows: int) -> int:
        """A power of two, or `max_batch`: the number of different shapes stays small."""
        bytes_of_a_row = max(1, sum(int(array.nbytes) for array in arrays.values()) // rows)
        most = min(PART_BYTES // bytes_of_a_row, LARGE_PART * self._settings.max_batch)
        return max(self._settings.max_batch, 1 << most.bit_length() >> 1)

    async def _in_pool(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)

    async def _work(self) -> None:
        while True:
            calls = await self._next_batch()
            try:
                results = await self._in_pool(self._padded, [call.arrays for call in calls])
            except Exception as error:
                await self._one_by_one(calls, error)
                continue
            self._metrics.count_batch(sum(call.rows for call in calls))
            for call, result in zip(calls, results, strict=True):
                _resolve(call, result)

    async def _one_by_one(self, calls: Sequence[_Call], error: Exception) -> None:
        """Call the model for each request alone: one of them may have made the batch fail, and only
        that one should fail."""
        for call in calls:
            outcome: dict[str, Any] | Exception = error
            if len(calls) > 1:
                try:
                    outcome = (await self._in_pool(self._padded, [call.arrays]))[0]
                except Exception as own:
                    outcome = own
            _resolve(call, outcome)

    async def _next_batch(self) -> list[_Call]:
        """Wait for a request, then for others until the batch is full or the delay is over."""
        while True:
            while self._waiting and self._waiting[0].result.done():
                self._waiting.popleft()  # its client has gone
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            first = self._waiting[0]
            seconds_left = first.arrived + self._settings.max_delay_ms / 1000 - time.monotonic()
            rows = sum(call.rows for call in self._waiting if call.key == first.key)
            if seconds_left <= 0 or rows >= self._settings.max_batch:
                return self._take(first)
            self._arrived.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), seconds_left)

    def _take(self, first: _Call) -> list[_Call]:
        taken: list[_Call] = []
        rows, others = 0, deque[_Call]()
        for call in self._waiting:
            fits = call.key == first.key and rows + call.rows <= self._settings.max_batch
            if fits and not call.result.done():
                taken.append(call)
                rows += call.rows
            else:
                others.append(call)
        self._waiting = others
        return taken

    def _padded(self, calls: Sequence[Arrays]) -> list[dict[str, Any]]:
        """The outputs of each call, from one call of the model."""
        joined = {
            name: np.concatenate([call[name] for call in calls]) if len(calls) > 1 else array
            for name, array in calls[0].items()
        }
        rows = rows_of(joined)
        size = self._settings.padded(rows)
        if size > rows:
            joined = {
                n: np.concatenate([a, a[-1:].repeat(size - rows, 0)]) for n, a in joined.items()
            }
        outputs = self._predict(joined)
        ends = np.cumsum([rows_of(call) for call in calls])
        return [
            {name: array[end - rows_of(call) : end] for name, array in outputs.items()}
            for call, end in zip(calls, ends, strict=True)
        ]


def _resolve(call: _Call, outcome: dict[str, Any] | Exception) -> None:
    if call.result.done():
        return
    if isinstance(outcome, Exception):
        call.result.set_exception(outcome)
    else:
        call.result.set_result(outcome)
