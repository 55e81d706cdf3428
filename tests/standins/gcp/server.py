"""Google's JSON over HTTP, as the stand-ins for its REST APIs serve it on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call: its target is the path with the query, its body what is in the JSON."""

    method: str
    target: str
    headers: Message
    body: Any


Answer = tuple[int, Any]  # the status, and the JSON; None: no content


def error(status: int, reason: str, message: str = "") -> dict[str, Any]:
    """A refusal as Google writes it."""
    message = message or reason
    return {"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}


def start(answer: Callable[[Call], Answer]) -> ThreadingHTTPServer:
    """Serve until `shutdown`. What `answer` raises is a refusal that no client expects."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body = json.loads(content) if content.startswith((b"{", b"[")) else None
                status, output = answer(Call(self.command, self.path, self.headers, body))
            except Exception as failure:
                status, output = 500, error(500, f"{type(failure).__name__}: {failure}")
            data = b"" if output is None else json.dumps(output).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _reply

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def address(server: ThreadingHTTPServer) -> str:
    """The address of a server, without a slash at its end."""
    return f"http://127.0.0.1:{server.server_port}"


@contextmanager
def serving(answer: Callable[[Call], Answer]) -> Iterator[str]:
    """The address, while the block runs."""
    server = start(answer)
    try:
        yield address(server)
    finally:
        server.shutdown()
        server.server_close()
