"""A model behind the contract of TensorFlow Serving, on a loopback port, without TensorFlow."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from bootstrap.inventory.hosts import Host
from bootstrap.ssh.local_session import HERE
from training.serving import rest
from training.serving.signature import InvalidRequest, Signature, Tensor

Function = Callable[[Mapping[str, Any]], dict[str, Any]]


def signature(inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Signature:
    return Signature("serving_default", tuple(inputs.values()), tuple(outputs.values()))


def pictures(size: int = 2) -> Signature:
    """A model of grey pictures with one output of as many numbers."""
    x = Tensor("x", "float32", (None, size, size, 1))
    y = Tensor("y", "float32", (None, size, size, 1))
    return signature({"x": x}, {"y": y})


class ServedModel:
    """Answers as the endpoint `m`; notes what comes. `broken`: answers so many requests by closing
    the connection."""

    def __init__(self, served: Signature, function: Function) -> None:
        self.signature, self.function, self.version = served, function, 1
        self.predictions: list[dict[str, Any]] = []
        self.connections: list[socket.socket] = []
        self.broken = 0
        self.answer: bytes | None = None  # instead of the model's
        self.status = 200
        self.server = _Server(("127.0.0.1", 0), self._handler())
        self.port = self.server.server_port
        self.session: Any = _Session()
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.disconnect()

    def disconnect(self) -> None:
        """Close all connections, as after a time without requests."""
        for connection in self.connections:
            with connection:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self.connections.clear()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # head and body leave together

            def setup(self) -> None:
                super().setup()
                model.connections.append(self.request)

            def do_GET(self) -> None:
                assert self.path == "/v1/models/m/metadata", self.path
                self._send(rest.metadata_response("m", model.version, [model.signature]))

            def do_POST(self) -> None:
                assert self.path == "/v1/models/m:predict", self.path
                body = self.rfile.read(int(self.headers["Content-Length"]))
                model.predictions.append(json.loads(body))
                try:
                    request = rest.PredictRequest.read(body)
                    outputs = model.function(request.arrays(model.signature))
                    rows = len(request.values) if request.by_row else 0
                    self._send(rest.predict_response(outputs, request.by_row, rows))
                except InvalidRequest as error:
                    self._send(rest.error_body(str(error)), 400)

            def _send(self, body: bytes, status: int = 0) -> None:
                if model.broken:
                    model.broken -= 1
                    self.close_connection = True
                    return
                body = body if model.answer is None else model.answer
                self.send_response(status or model.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that has gone is part of the tests."""


class _Session:
    """A session with this machine, as far as calls need one."""

    host = Host(HERE, "localhost")
