"""What several tests of this room start from."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.cards import with_cards

from bootstrap.facts import HostFacts, parse

CASES = Path(__file__).parents[1] / "cases"


@pytest.fixture(scope="session")
def debian() -> HostFacts:
    """The facts of a Debian 12 host, 192.0.2.2 in 192.0.2.0/24, that has every part."""
    held = json.loads((CASES / "facts/debian-12.json").read_text())
    return parse("\n".join(held["output"]))


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server that answers as S3, found by the variables of AWS, with the bucket `results-b`,
    versioned as a stack's is."""
    import boto3

    moto = pytest.importorskip("moto.server", reason="scripts/setup --dev installs moto")
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    words = {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
    words |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "NO_PROXY": "127.0.0.1"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    reset = urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()  # its state outlives the server
    client = boto3.client("s3")
    client.create_bucket(Bucket="results-b")
    client.put_bucket_versioning(Bucket="results-b", VersioningConfiguration={"Status": "Enabled"})
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server: Any) -> Any:
    """A client of that S3."""
    import boto3

    return boto3.client("s3")


@pytest.fixture(scope="session")
def t4(debian: HostFacts) -> HostFacts:
    """The same host with a T4 in it, and no driver."""
    return with_cards(debian, "turing")
