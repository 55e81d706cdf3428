"""The limits of bodies, and the process that parses the large ones."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from training.serving import bodies, rest
from training.serving.bodies import AT_ONCE, SMALL, Bodies
from training.serving.large import LARGE, LargeWork
from training.serving.rest import Refused
from training.serving.signature import InvalidRequest, Signature, Tensor

MOST = 1_000_000
SIGNATURES = {"serving_default": Signature("s", (Tensor("x", "float32", (None,)),), ())}


def request(*parts: bytes, never_ends: bool = False, **headers: str) -> Any:
    """What `Bodies` uses of a request."""

    async def stream() -> AsyncIterator[bytes]:
        for piece in parts:
            yield piece
        if never_ends:
            await asyncio.Event().wait()

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(stream=stream, headers=named)


def outcome(sent: Any) -> bytes | int:
    """The body, or the status of the refusal. Nothing of it is held afterwards."""
    reader = Bodies(MOST, 0.2)

    async def read() -> bytes | int:
        try:
            async with reader.body(sent) as body:
                return body
        except Refused as refused:
            return refused.status

    output = asyncio.run(asyncio.wait_for(read(), 20))
    assert reader.held == 0
    return output


ZIPPED = gzip.compress(b"abc")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (request(b"ab", b"c", content_encoding="identity"), b"abc"),
        (request(), b""),
        (request(b"x" * MOST), b"x" * MOST),
        (request(b"x" * MOST, b"x"), 413),
        (request(never_ends=True, content_length=str(MOST + 1)), 413),
        (request(b"x", never_ends=True), 408),
        (request(ZIPPED, content_encoding="GZip"), b"abc"),
        (request(gzip.compress(b"x" * MOST), content_encoding="gzip"), b"x" * MOST),
        (request(gzip.compress(b"x" * 20 * MOST, 1), content_encoding="gzip"), 413),
        (request(b"abc", content_encoding="gzip"), 400),
        (request(ZIPPED[:-1], content_encoding="gzip"), 400),
        (request(ZIPPED + b"x", content_encoding="gzip"), 400),
        (request(zlib.compress(b"abc"), content_encoding="deflate"), 415),
    ],
)
def test_a_body_is_read_within_its_limits(sent: Any, expected: bytes | int) -> None:
    assert outcome(sent) == expected


def test_bodies_that_never_end_leave_memory_to_small_ones() -> None:
    """As many as they are: the largest together have a limit."""
    reader = Bodies(MOST, 20)

    async def read(sent: Any) -> int:
        try:
            async with reader.body(sent) as body:
                return len(body)
        except Refused as refused:
            return refused.status

    async def work() -> None:
        piece = b"x" * (MOST // 2)
        slow = [asyncio.create_task(read(request(piece, never_ends=True))) for _ in range(260)]
        while sum(task.done() for task in slow) < 260 - reader.held // (MOST // 2 - SMALL):
            await asyncio.sleep(0)
        assert {task.result() for task in slow if task.done()} == {503}
        assert MOST * (AT_ONCE - 1) < reader.held <= MOST * AT_ONCE
        assert await read(request(b"x" * SMALL)) == SMALL
        assert await read(request(piece)) == 503
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert reader.held == 0 and await read(request(piece)) == len(piece)

    asyncio.run(asyncio.wait_for(work(), 20))


PART = {"type": "http.request", "body": b"x", "more_body": True}
END = {"type": "http.request", "body": b"x", "more_body": False}
GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("messages", "read", "remaining"),
    [
        ([PART, PART, END], 0, 0),
        ([PART, PART, END], 1, 0),
        ([PART, GONE], 1, 0),
        ([END, GONE], 1, 1),  # nothing comes after a whole body: nobody waits for it
        ([{**PART, "body": b"x" * 300}] * 9, 0, 5),
    ],
)
def test_an_early_response_is_sent_before_the_rest_of_the_body_is_read(
    messages: list[Any], read: int, remaining: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends all of it first sees no broken connection."""
    monkeypatch.setattr(bodies, "DRAINED", 1000)
    queue, sent = list(messages), list[tuple[str, int]]()

    async def receive() -> Any:
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append((message["type"], len(queue)))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(read):
            await receive()
        await send({"type": "http.response.start"})
        await send({"type": "http.response.body", "body": b"refused"})

    asyncio.run(asyncio.wait_for(bodies.drained(app)({"type": "http"}, receive, send), 20))
    unread = len(messages) - read
    assert sent[:2] == [("http.response.start", unread), ("http.response.body", unread)]
    assert len(queue) == remaining


def with_work(largest: int, work: Callable[[LargeWork], Awaitable[Any]]) -> Any:
    """Run `work` with a process for large values."""

    async def run() -> Any:
        worker = LargeWork(largest)
        try:
            return await asyncio.wait_for(work(worker), 60)
        finally:
            worker.close()

    return asyncio.run(run())


def numbers(count: int) -> bytes:
    return b'{"instances": [' + b",".join([b"0.5"] * count) + b"]}"


def test_a_large_body_is_parsed_while_others_are_served() -> None:
    """The longest pause of the event loop is a small part of the time of the work."""

    async def pauses(worker: LargeWork, body: bytes) -> tuple[float, float, int]:
        longest, began = 0.0, time.monotonic()
        task = asyncio.create_task(worker.run(len(body), rest.decode, body, SIGNATURES))
        while not task.done():
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)
        return longest, time.monotonic() - began, len(task.result().arrays["x"])

    async def work(worker: LargeWork) -> None:
        await worker.run(LARGE + 1, int, "1")  # the process has started
        longest, whole, rows = await pauses(worker, numbers(2_000_000))
        assert rows == 2_000_000 and longest < whole / 3, (longest, whole)

    with_work(32_000_000, work)


def test_a_large_value_has_its_own_error_and_limits() -> None:
    """One process for all of it: what fails there fails its own request."""

    async def work(worker: LargeWork) -> None:
        assert await worker.run(LARGE, os.getpid) == os.getpid(), "small work is done here"
        first = await worker.run(LARGE + 1, os.getpid)
        with pytest.raises(InvalidRequest, match="JSON Parse error"):
            await worker.run(LARGE + 1, rest.decode, b"[", SIGNATURES)
        body = await worker.run(LARGE + 1, rest.predict_response, {"y": np.ones(2)}, True, 2)
        assert body == b'{"predictions":[1.0,1.0]}'
        assert await worker.run(LARGE + 1, os.getpid) == first != os.getpid()
        with pytest.raises(Refused) as refused:
            await worker.run(LARGE + 1, bytes, 2 * worker.memory)
        assert refused.value.status == 413
        with pytest.raises(Refused) as refused:
            await worker.run(LARGE + 1, os.kill, first, signal.SIGKILL)
        assert refused.value.status == 503
        assert await worker.run(LARGE + 1, os.getpid) not in (first, os.getpid())

    with_work(1_000_000, work)


def test_the_process_ends_with_the_server() -> None:
    async def work(worker: LargeWork) -> Any:
        await worker.run(LARGE + 1, int, "1")
        process = worker._process
        assert process and process.stdin
        process.stdin.close()  # as when the server is killed
        return await asyncio.to_thread(process.wait, 20)

    assert with_work(1_000_000, work) == 0
