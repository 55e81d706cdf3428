"""Which certificate authorities the clients of clouds and buckets trust.

A server whose certificate is signed by an authority that no list of a library has, as in a company.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from standins.authority import make, serve, trusted_alone

AWS = """
from bootstrap.host.buckets.s3 import boto_client
boto_client("s3", "us-east-1").head_bucket(Bucket="ours")
"""
GOOGLE = """
import google.auth
from google.auth.credentials import AnonymousCredentials
google.auth.default = lambda scopes: (AnonymousCredentials(), None)
from bootstrap.host.buckets.gcs import google_session
import os
session = google_session()
session.get(os.environ["AWS_ENDPOINT_URL"])
session._auth_request(os.environ["AWS_ENDPOINT_URL"])  # what fetches tokens
"""
DATA = """
from railhead.documents.uri import BucketUri
from training.data.store import connected
connected(BucketUri("s3", "ours", "")).list(prefix="a").collect()
"""
CLIENTS = {"aws": AWS, "google": GOOGLE, "data": DATA}
NAMED = ("SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Server(http.server.BaseHTTPRequestHandler):
    """Counts the requests that come through TLS."""

    answers = 0

    def do_GET(self) -> None:
        Server.answers += 1
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose authority is ca.pem in `tmp_path`."""
    make(tmp_path)
    with serve(Server, tmp_path) as address:
        yield address


def answers(text: str, server: str, trusted: Path | None, **variables: str) -> int:
    """Run a client; how many of its requests were answered. `trusted`: all that the system has."""
    before, keys = Server.answers, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    kept = {name: value for name, value in os.environ.items() if name not in NAMED}
    keys |= {"AWS_ENDPOINT_URL": server, "AWS_REGION": "us-east-1", "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", text]
    argv = trusted_alone(argv, trusted) if trusted else argv
    subprocess.run(argv, env=kept | keys | variables, capture_output=True, cwd=ROOT)
    return Server.answers - before


@pytest.mark.parametrize("text", CLIENTS.values(), ids=CLIENTS)
def test_an_authority_of_the_system_is_trusted(server: str, tmp_path: Path, text: str) -> None:
    assert answers(text, server, tmp_path / "ca.pem") == (2 if text is GOOGLE else 1)
    assert answers(text, server, None) == 0
    assert answers(text, server, None, SSL_CERT_FILE=str(tmp_path / "ca.pem")) > 0


@pytest.mark.parametrize("text", [AWS, DATA], ids=["aws", "data"])
def test_aws_own_variable_counts_before_the_system(server: str, tmp_path: Path, text: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make(other)
    assert answers(text, server, other / "ca.pem", AWS_CA_BUNDLE=str(tmp_path / "ca.pem")) == 1
    assert answers(text, server, tmp_path / "ca.pem", AWS_CA_BUNDLE=str(other / "ca.pem")) == 0
