"""The bodies of requests: limits of their size, time and common memory, and gzip."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from .rest import Refused

if TYPE_CHECKING:
    from starlette.requests import Request

SMALL = 64_000  # bytes of each body that are not counted: small requests always fit
AT_ONCE = 8  # bodies of the largest size that may be in memory
DRAINED = 256_000_000  # bytes of a body that are read after the response
App = Callable[[Any, Any, Any], Awaitable[None]]  # of ASGI


class Bodies:
    """Reads bodies of at most `largest` bytes; each arrives within `seconds`."""

    def __init__(self, largest: int, seconds: float) -> None:
        self.largest, self.seconds = largest, seconds
        self.held = 0  # bytes of all bodies in memory

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The uncompressed body of a request; its memory is counted until the block ends.

        Raises:
            Refused: 400 not gzip, 408 it does not arrive in time, 413 too large, 415 an encoding
                that is not gzip, 503 the bodies of other requests have the memory.
        """
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise Refused(415, f"Content-Encoding must be gzip or identity, not {encoding[:100]!r}")
        if int(request.headers.get("content-length", 0)) > self.largest:  # h11 has checked it
            raise self._too_large()
        with self._share() as hold:
            body = await self._arrived(request, hold)
            if encoding == "gzip":
                content = await asyncio.to_thread(self._unzipped, body)
                hold(len(body) + len(content))
                body = content
            yield body

    @contextlib.contextmanager
    def _share(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that counts the bytes of one body, until the block ends."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            more = max(0, size - SMALL) - held
            if self.held + more > AT_ONCE * self.largest:
                raise Refused(503, "busy with other large requests; try again")
            self.held += more
            held += more

        try:
            yield hold
        finally:
            self.held -= held

    async def _arrived(self, request: Request, hold: Callable[[int], None]) -> bytes:
        try:
            return await asyncio.wait_for(self._read(request, hold), self.seconds)
        except (asyncio.TimeoutError, TimeoutError):
            raise Refused(408, f"the body did not arrive within {self.seconds:g} s") from None

    async def _read(self, request: Request, hold: Callable[[int], None]) -> bytes:
        parts, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > self.largest:
                raise self._too_large()
            hold(size)
            parts.append(piece)
        return b"".join(parts)

    def _unzipped(self, sent: bytes) -> bytes:
        """The content of gzip data: a thousand times as much, at most."""
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            content = decompressor.decompress(sent, self.largest + 1)
        except zlib.error as error:
            raise Refused(400, f"the body is not gzip: {error}") from None
        if len(content) > self.largest:
            raise self._too_large()
        if not decompressor.eof or decompressor.unused_data:
            raise Refused(400, "the body must be one whole gzip stream")
        return content

    def _too_large(self) -> Refused:
        return Refused(413, f"a body of more than {self.largest // 1_000_000} MB")


def drained(app: App) -> App:
    """The application, whose early responses reach a client that first sends its whole body: the
    rest of it is read before the connection may close."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        arrived = False

        async def counted() -> Any:
            nonlocal arrived
            message = await receive()
            arrived = not message.get("more_body", False)
            return message

        async def respond(message: Any) -> None:
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if arrived or not is_last:
                await send(message)
                return
            await send({**message, "more_body": True})
            size = 0
            while not arrived and size <= DRAINED:
                size += len((await counted()).get("body", b""))
            await send({"type": "http.response.body"})

        await app(scope, *((counted, respond) if scope["type"] == "http" else (receive, send)))

    return answer
