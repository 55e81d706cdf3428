"""What fake-gcs-server lacks: uploads by Google's XML API, which obstore uses.

A proxy in front of the emulator. Reads pass through. A simple PUT becomes an upload that the
emulator knows; the parts of a multipart upload are joined here first.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PIECE = 1 << 18
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class Uploads:
    """Multipart uploads that are under way."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.parts: dict[str, dict[int, bytes]] = {}


class Proxy(BaseHTTPRequestHandler):
    """One request; `upstream` and `uploads` are set by `serve`."""

    protocol_version = "HTTP/1.1"
    upstream: str
    uploads: Uploads

    def do_GET(self) -> None:
        self.forward(self.path, None)

    do_HEAD = do_DELETE = do_GET

    def do_POST(self) -> None:
        body = self.body()
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.path.startswith(("/storage/", "/upload/")):
            self.forward(self.path, body)
        elif "uploads" in query:
            self.begin()
        elif "uploadId" in query:
            self.complete(url.path, query["uploadId"][0])
        else:
            self.forward(self.path, body)

    def do_PUT(self) -> None:
        body = self.body()
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "uploadId" in query:
            number = int(query["partNumber"][0])
            self.uploads.parts[query["uploadId"][0]][number] = body
            self.answer(200, b"", {"ETag": f'"{number}"'})
        else:
            self.forward(signed(url.path), body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def begin(self) -> None:
        identity = str(next(self.uploads.numbers))
        self.uploads.parts[identity] = {}
        text = f"<UploadId>{identity}</UploadId><Bucket>b</Bucket><Key>k</Key>"
        tag = "InitiateMultipartUploadResult"
        self.answer(200, f"<{tag}>{text}</{tag}>".encode())

    def complete(self, path: str, identity: str) -> None:
        parts = self.uploads.parts.pop(identity)
        whole = b"".join(parts[number] for number in sorted(parts))
        status, _, _ = self.send(signed(path), whole, "PUT")
        tag = "CompleteMultipartUploadResult"
        self.answer(status, f'<{tag}><ETag>"{identity}"</ETag></{tag}>'.encode())

    def send(self, path: str, body: bytes | None, method: str) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(self.upstream, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
        upstream.request(method, path, body, headers)
        answer = upstream.getresponse()
        kept = {k: v for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP}
        if method == "HEAD":
            kept["Content-Length"] = answer.getheader("Content-Length", "0")
        content = answer.read()
        upstream.close()
        return answer.status, kept, content

    def forward(self, path: str, body: bytes | None) -> None:
        status, headers, content = self.send(path, body, self.command)
        if not any(name.lower() == "etag" for name in headers) and self.command == "PUT":
            headers["ETag"] = '"1"'
        self.answer(status, content, headers)

    def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: tests read answers."""


class Server(ThreadingHTTPServer):
    """A thread for each connection; a client may open 16 at once on a busy machine."""

    daemon_threads = True
    request_queue_size = 128


def signed(path: str) -> str:
    """The path of an upload with a signed URL, the one XML upload that the emulator has."""
    return f"{path}?X-Goog-Algorithm=none"


@contextlib.contextmanager
def serve(port: int, upstream: str) -> Iterator[None]:
    """The proxy on a port, in threads of this process; `upstream` is host:port."""
    handler = type("Handler", (Proxy,), {"upstream": upstream, "uploads": Uploads()})
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
