"""The HTTP interface: TensorFlow Serving's REST contract, /healthz and /metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from railhead.documents.serving import local_requests

from . import rest
from .bodies import App, Bodies, drained
from .large import LargeWork
from .metrics import ServingMetrics
from .rest import Refused
from .settings import ServeSettings
from .signature import InvalidRequest
from .versions import NotFound, Versions, not_found

_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>[0-9]{1,18})|/labels/(?P<label>[^/:]+))?"
    r"(?::(?P<verb>[a-z]+)|/(?P<metadata>metadata))?"
)
JSON = "application/json"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServedApp:
    """Answers requests for one model."""

    def __init__(
        self, settings: ServeSettings, versions: Versions, metrics: ServingMetrics
    ) -> None:
        self.settings, self.versions, self.metrics = settings, versions, metrics
        self.bodies = Bodies(settings.max_body, settings.timeout_s)
        self.large = LargeWork(settings.max_body)

    async def model(self, request: Request) -> Response:
        """Every request below /v1."""
        path = _PATH.fullmatch(request.url.path)
        method = self._method(request, path)
        began = time.monotonic()
        response = await self._answer(request, path, method)
        self.metrics.count_request(method, response.status_code, time.monotonic() - began)
        return response

    async def health(self, _: Request) -> Response:
        """200 when a version serves, 503 while the first one is loading."""
        if self.versions.current:
            return Response(json.dumps(self._health()), media_type=JSON)
        return Response(rest.error_body("the model is loading"), 503, media_type=JSON)

    def _health(self) -> dict[str, Any]:
        failed = {str(n): error for n, (_, error) in self.versions.states.items() if error}
        health = {
            "status": "ok",
            "version": self.metrics.version,
            "requests": self.metrics.requests,
        }
        return {**health, "failed": failed}

    async def show_metrics(self, _: Request) -> Response:
        """Prometheus text."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    @staticmethod
    def _method(request: Request, path: re.Match[str] | None) -> str:
        if not path:
            return "unknown"
        if path["verb"]:
            return "predict" if path["verb"] == "predict" else "unknown"
        return "metadata" if path["metadata"] else "status"

    async def _answer(self, request: Request, path: re.Match[str] | None, method: str) -> Response:
        """The response; every failure has a status and a body of the contract."""
        try:
            if not path or request.method != ("POST" if path["verb"] else "GET"):
                raise Refused(400, f"Malformed request: {request.method} {request.url.path}")
            body = await self._by_method(request, path, method)
            return Response(body, media_type=JSON)
        except Refused as error:
            return _refusal(error.status, error.message)
        except InvalidRequest as error:
            return _refusal(400, str(error))
        except NotFound as error:
            return _refusal(404, str(error))
        except (asyncio.TimeoutError, TimeoutError):
            return _refusal(504, f"no result within {self.settings.timeout_s:g} s")
        except ClientDisconnect:
            return _refusal(499, "the client has gone")
        except Exception as error:  # the model's own
            status = 400 if type(error).__name__ == "InvalidArgumentError" else 500
            return _refusal(status, f"the model failed: {str(error)[:600] or type(error).__name__}")

    async def _by_method(self, request: Request, path: re.Match[str], method: str) -> bytes:
        name, label = path["name"], path["label"]
        number = int(path["version"]) if path["version"] else None
        if method == "unknown":
            raise Refused(501, f":{path['verb']} is not served here; use :predict")
        if label:
            raise Refused(400, f"Unrecognized servable version label: {label}")
        if method == "status":
            return self._status(name, number)
        if name != self.settings.name:
            raise not_found(name, number)
        if method == "metadata":
            version = self.versions.get(number)
            signatures = list(version.model.signatures.values())
            return rest.metadata_response(name, version.number, signatures)
        return await self._predict(request, number)

    def _status(self, name: str, number: int | None) -> bytes:
        states = self.versions.states if name == self.settings.name else {}
        if not states:
            raise NotFound(f"Could not find any versions of model {name}")
        if number is not None and number not in states:
            raise NotFound(f"Could not find version {number} of model {name}")
        chosen = {n: state for n, state in states.items() if number in (None, n)}
        return rest.status_response(chosen)

    async def _predict(self, request: Request, number: int | None) -> bytes:
        """A request occupies a place only after its body has arrived: slow clients occupy none."""
        async with self.bodies.body(request) as body:
            if self.metrics.in_flight >= self.settings.max_requests:
                raise Refused(503, f"busy with {self.metrics.in_flight} requests; try again")
            self.metrics.in_flight += 1
            try:
                return await asyncio.wait_for(self._result(body, number), self.settings.timeout_s)
            finally:
                self.metrics.in_flight -= 1

    async def _result(self, body: bytes, number: int | None) -> bytes:
        await self.versions.ready.wait()  # requests during a restart are not refused
        version = self.versions.get(number)
        with version.in_use():
            signatures = version.model.signatures
            decoded = await self.large.run(len(body), rest.decode, body, signatures)
            outputs = await version.batchers[decoded.signature].predict(decoded.arrays)
        size = sum(array.nbytes for array in outputs.values())
        return await self.large.run(
            size, rest.predict_response, outputs, decoded.by_row, decoded.rows
        )


def _refusal(status: int, message: str) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else {}
    return Response(rest.error_body(message), status, headers, media_type=JSON)


def application(endpoint: ServedApp, on_failure: Callable[[Exception], None]) -> App:
    """The ASGI application; `on_failure` gets the error that ends the watch over the versions."""

    async def watch() -> None:
        try:
            await endpoint.versions.watch()
        except Exception as error:
            on_failure(error)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(watch())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        endpoint.large.close()

    handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/healthz": endpoint.health,
        "/metrics": endpoint.show_metrics,
        "/{path:path}": endpoint.model,
    }
    routes = [
        Route(path, handler, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
        for path, handler in handlers.items()
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    return drained(local_only(app) if endpoint.settings.host in LOOPBACK else app)


def local_only(app: App) -> App:
    """The application, which refuses requests of web pages with 403."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        why = scope["type"] == "http" and local_requests.refusal(Headers(scope=scope).get)
        await (_refusal(local_requests.FORBIDDEN, why) if why else app)(scope, receive, send)

    return checked
