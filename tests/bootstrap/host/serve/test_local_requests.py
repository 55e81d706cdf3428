"""Which requests come from this computer, and not from a web page of another site."""

from __future__ import annotations

from typing import Any

import pytest

from bootstrap.host.serve.tensorboard import checked
from railhead.documents.serving import local_requests

PAGE = "http://127.0.0.1:8501"
ALLOWED: list[dict[str, str]] = [
    {"host": "127.0.0.1:8501"},
    {"host": "127.0.0.1"},
    {"host": "LocalHost:1"},
    {"host": "[::1]:8501"},
    {"host": "127.0.0.1:8501", "origin": PAGE},
    {"host": "127.0.0.1:8501", "origin": PAGE, "sec-fetch-site": "same-origin"},
    {"host": "127.0.0.1:8501", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
]
REFUSED: list[dict[str, str]] = [
    {},
    {"host": ""},
    {"host": "evil.example:8501"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "localhost.evil.example:8501"},
    {"host": "127.0.0.1@evil.example"},
    {"host": "192.0.2.1:8501"},
    {"host": "0.0.0.0:8501"},
    {"host": "127.0.0.1:8501", "origin": "http://evil.example"},
    {"host": "127.0.0.1:8501", "origin": "null"},
    {"host": "127.0.0.1:8501", "origin": ""},
    {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:3000"},
    {"host": "127.0.0.1:8501", "origin": "https://127.0.0.1:8501"},
    {"host": "127.0.0.1:8501", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"host": "evil.example", "origin": "http://evil.example", "sec-fetch-site": "same-origin"},
]
CASES = [*((headers, 200) for headers in ALLOWED), *((headers, 403) for headers in REFUSED)]


@pytest.mark.parametrize(("headers", "status"), CASES, ids=str)
def test_a_page_of_another_site_is_refused(headers: dict[str, str], status: int) -> None:
    assert bool(local_requests.refusal(headers.get)) == (status == 403)


@pytest.mark.parametrize(("headers", "status"), CASES, ids=str)
def test_tensorboard_answers_no_page_of_another_site(headers: dict[str, str], status: int) -> None:
    """Its application in the form that its server gets."""
    status_lines: list[str] = []

    def start_response(line: str, _: Any) -> None:
        status_lines.append(line)

    def application(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"curves"]

    names = {name: f"HTTP_{name.upper().replace('-', '_')}" for name in headers}
    environ = {names[name]: value for name, value in headers.items()}
    body = b"".join(checked(application)(environ, start_response))
    assert [int(line.split()[0]) for line in status_lines] == [status]
    assert (body == b"curves") == (status == 200)
