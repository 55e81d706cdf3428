"""Connections of uvicorn with a time limit for what a client sends."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


def punctual(body_seconds: float) -> type[H11Protocol]:
    """A protocol for uvicorn that closes a connection whose request does not arrive in time.

    The head may take HEAD_SECONDS, the body `body_seconds`. (uvicorn itself limits only the pause
    between two requests.)
    """
    limits = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: body_seconds}

    class Punctual(H11Protocol):  # type: ignore[misc]  # uvicorn is on the hosts only
        _state: Any = None  # of the client, by h11
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.SEND_BODY:  # of a request that came with the one before
                self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._cancel()

        def _watch(self) -> None:
            """Start the time limit of the part that is awaited now, once."""
            state = self.conn.their_state
            if state is self._state:
                return
            self._cancel()
            self._state = state
            if state in limits:
                self._timer = self.loop.call_later(limits[state], self.transport.close)

        def _cancel(self) -> None:
            if self._timer:
                self._timer.cancel()
            self._timer = None

    return Punctual
