"""A machine of Google Cloud with a service account: its metadata server, and Google's storage.

with on_google(endpoint_of_the_emulator, folder) as host:
    program(environ=host.environ)     # no key, no emulator's variable: as on a real machine
    host.tokens                       # the paths that were requested from the metadata server
    host.refused                      # requests to storage.googleapis.com without that token

storage.googleapis.com is reached through a proxy with its own certificate authority, and is
the emulator behind it, which itself knows no rights.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST, TOKEN = "storage.googleapis.com", "a-token-of-the-metadata-server"


@dataclass
class GoogleHost:
    """What the machine gives to its programs, and what they did with it."""

    environ: dict[str, str] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Answering(BaseHTTPRequestHandler):
    """HTTP/1.1 without a log."""

    protocol_version = "HTTP/1.1"

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def on_google(emulator: str, folder: Path) -> Iterator[GoogleHost]:
    """The variables of a machine in Google Cloud whose service account may read."""
    host = GoogleHost()
    authority, certificate, key = certificates(HOST, folder)
    with (
        serve(metadata(host)) as metadata_port,
        serve(storage(host, emulator, certificate, key)) as port,
    ):
        host.environ = {
            "GCE_METADATA_HOST": f"127.0.0.1:{metadata_port}",
            "HTTPS_PROXY": f"http://127.0.0.1:{port}",
            "SSL_CERT_FILE": str(authority),
            "CURL_CA_BUNDLE": str(authority),  # TensorFlow's own reader
        }
        yield host


@contextlib.contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server in a thread; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def metadata(host: GoogleHost) -> type[BaseHTTPRequestHandler]:
    """The token of the default service account, for who names Google's header."""

    class Metadata(Answering):
        def do_GET(self) -> None:
            host.tokens.append(self.path.partition("?")[0])
            if self.headers.get("Metadata-Flavor") != "Google":
                self.answer(403, b"")
                return
            token = {"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}
            self.answer(200, json.dumps(token).encode())

    return Metadata


def storage(
    host: GoogleHost, emulator: str, certificate: Path, key: Path
) -> type[BaseHTTPRequestHandler]:
    """A proxy for HTTPS whose only destination is the emulator, for who has the token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Storage(Answering):
        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb")
            self.wfile = self.connection.makefile("wb", 0)
            self.close_connection = False  # the requests inside are handled as the next ones

        def do_GET(self) -> None:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                host.refused.append(self.path)
                self.answer(401, b"<Error><Code>AuthenticationRequired</Code></Error>")
                return
            passed = {n: value for n, value in self.headers.items() if n.lower() == "range"}
            request = urllib.request.Request(emulator + self.path, headers=passed)
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    self.answer(response.status, response.read(), **kept(dict(response.headers)))
            except urllib.error.HTTPError as error:
                self.answer(error.code, error.read())

    return Storage


def kept(headers: dict[str, str]) -> dict[str, str]:
    """The headers that say what the content is."""
    names = ("Content-Range", "Content-Type", "ETag", "Last-Modified")
    lowered = {name.lower() for name in names}
    return {name: value for name, value in headers.items() if name.lower() in lowered}


def certificates(host: str, folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate for a host by it with its key: rustls wants both."""
    authority, certificate, key = (folder / f"{name}.pem" for name in ("authority", "host", "key"))
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    root = ["-subj", "/CN=tests", "-keyout", str(folder / "authority.key"), "-out", str(authority)]
    by = ["-CA", str(authority), "-CAkey", str(folder / "authority.key"), "-subj", f"/CN={host}"]
    by += ["-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=CA:FALSE"]
    for options in (root, [*by, "-keyout", str(key), "-out", str(certificate)]):
        subprocess.run([*make, *options], check=True, capture_output=True)
    return authority, certificate, key
