"""Requests to Google's REST APIs: which token they use, and how invalid responses are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest.mock import patch

import pytest

from stacks.gcp.lookups.rest import Google, LookupFailed


@contextmanager
def server(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """An address that always answers so, and the paths that were requested of it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    there = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=there.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{there.server_port}/", paths
    finally:
        there.shutdown()
        there.server_close()


def ask(address: str) -> None:
    variables = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": address}
    with patch.dict("os.environ", variables):
        Google("p-12345", "a-token").get("compute", "projects/p-12345")


def test_the_token_follows_no_redirect() -> None:
    with server(200, b"{}") as (other, paths):
        with (
            server(302, b"", Location=other) as (first, _),
            pytest.raises(LookupFailed, match="302"),
        ):
            ask(first)
        assert not paths


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (403, b'{"error": {"message": "no right"}}', "HTTP 403: no right"),
        (500, b"<html>", "HTTP 500: <html>"),
        (200, b"<html>", "Expecting value"),
    ],
)
def test_what_is_no_answer_is_unanswered(status: int, body: bytes, says: str) -> None:
    with server(status, body) as (address, _), pytest.raises(LookupFailed, match=says):
        ask(address)


def test_nobody_there_is_unanswered() -> None:
    with server(200, b"{}") as (address, _):
        pass
    with pytest.raises(LookupFailed, match="refused"):
        ask(address)


def test_the_token_is_in_no_text() -> None:
    assert "a-token" not in repr(Google("p-12345", "a-token"))
