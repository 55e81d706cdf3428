"""Calls to clouds through outages: their clients talk to a server here, the time is the test's own.

botocore 1.44.5 to 1.44.8 and requests 2.32 ran here.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("boto3", reason="scripts/setup --dev installs it")

import requests

from bootstrap.clouds.aws import client as aws_client
from bootstrap.clouds.aws.instances import Aws
from bootstrap.clouds.base import Refused, wait_for_state
from bootstrap.clouds.gcp.client import GoogleClient
from bootstrap.clouds.gcp.instances import Gcp
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError
from bootstrap.host.buckets import repeats
from bootstrap.host.buckets.gcs import GcsObjects, StorageClient
from bootstrap.host.buckets.objects import CHUNK
from bootstrap.host.buckets.repeats import CALL, LASTING, outlasting
from bootstrap.host.buckets.s3 import S3Objects, boto_client, open_objects
from bootstrap.inventory.hosts import Host, Inventory

CONTENT = b"0123456789" * 300_000  # more than two chunks
SILENCE = 0.2
DESCRIBED = (
    "<DescribeInstancesResponse><reservationSet><item><ownerId>1</ownerId><instancesSet>"
    "<item><instanceId>i-1</instanceId><instanceState><name>{}</name></instanceState></item>"
    "</instancesSet></item></reservationSet></DescribeInstancesResponse>"
)
AWS_ERROR = "<R><Errors><Error><Code>{}</Code><Message>busy</Message></Error></Errors></R>"
S3_ERROR = "<Error><Code>SlowDown</Code><Message>busy</Message></Error>"


@dataclass
class Cloud:
    """Both clouds: until `until`, each call meets the fault."""

    fault: str = ""
    until: float = 0.0
    time: float = 0.0
    changes: list[str] = field(default_factory=list)  # what succeeded
    version: str = "1"
    drops: list[int] = field(default_factory=list)  # bytes after which a body breaks
    state: str = "running"
    address: str = ""

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1  # one packet for each response
    cloud: Cloud

    def handle_expect_100(self) -> bool:
        proceeds = super().handle_expect_100()
        self.wfile.flush()
        return proceeds

    def reply(self) -> None:
        cloud = self.cloud
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_google = "/compute/" in self.path or "/storage/" in self.path
        if cloud.time < cloud.until:
            self._fail(is_google, cloud.fault)
        elif "/compute/" in self.path:
            self._google()
        elif b"Action=" in body:
            self._ec2(body.partition(b"Action=")[2].partition(b"&")[0].decode())
        else:
            self._object()

    do_GET = do_POST = do_PUT = do_DELETE = reply

    def _fail(self, is_google: bool, fault: str) -> None:
        if fault == "no answer":
            self.cloud.time += 30
            self.close_connection = True
        elif fault == "dropped":
            begin = self._begin_part(100)
            self.wfile.write(CONTENT[begin : begin + 1])
            self.close_connection = True
        elif fault == "throttled" and is_google:
            self._send(403, '{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}')
        elif fault == "throttled":
            is_ec2 = self.command == "POST"
            text = AWS_ERROR.format("RequestLimitExceeded") if is_ec2 else S3_ERROR
            self._send(400, text)
        else:
            self._send(503, AWS_ERROR.format("Unavailable"))

    def _ec2(self, action: str) -> None:
        if action != "DescribeInstances":
            self.cloud.changes.append(action)
            self._send(200, f"<{action}Response/>")
        else:
            self._send(200, DESCRIBED.format(self.cloud.state))

    def _google(self) -> None:
        if self.command != "GET":
            self.cloud.changes.append(f"{self.command} {self.path.rpartition('/')[2]}")
        self._send(200, f'{{"status": "{self.cloud.state.upper()}", "id": "7"}}')

    def _object(self) -> None:
        cloud = self.cloud
        condition = self.headers.get("If-Match") or self.path.partition("generation=")[2]
        if self.command in ("PUT", "POST"):
            cloud.changes.append(self.command)
            self._send(200, '{"generation": "1"}' if self.command == "POST" else "")
        elif condition and condition.strip('"') != cloud.version:
            self._send(412, "<Error><Code>PreconditionFailed</Code></Error>")
        else:
            data = CONTENT[self._begin_part(len(CONTENT)) :]
            self.wfile.write(data[: cloud.drops.pop(0)] if cloud.drops else data)
            self.close_connection = True

    def _begin_part(self, size: int) -> int:
        """The head of the response to a request of a whole object, or of its end."""
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(max(size - begin, 2)))
        self.send_header("Content-Range", f"bytes {begin}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self._versions()
        self.end_headers()
        return begin

    def _versions(self) -> None:
        self.send_header("ETag", f'"{self.cloud.version}"')
        self.send_header("x-goog-generation", self.cloud.version)

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self._versions()
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Cloud]:
    cloud = Cloud()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"cloud": cloud}))
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    cloud.address = f"http://127.0.0.1:{server.server_port}/"
    monkeypatch.setattr(repeats, "now", lambda: cloud.time)
    monkeypatch.setattr(repeats, "sleep", cloud.sleep)
    monkeypatch.setattr(aws_client, "boto_client", partial(boto_client, silence=SILENCE))
    for name, value in {
        "AWS_ENDPOINT_URL": cloud.address,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "RAILHEAD_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    yield cloud
    server.shutdown()
    server.server_close()


def aws(cloud: Cloud) -> Aws:
    host = Host("m1", "203.0.113.1", id="i-1")
    return Aws(Inventory("c", (host,), cloud="aws", region="us-east-1"))


def gcp(cloud: Cloud) -> Gcp:
    host = Host("m1", "203.0.113.1", id="projects/p/zones/z/instances/i")
    client = GoogleClient(
        requests.Session(), cloud.address, f"{cloud.address}compute/v1/", silence=SILENCE
    )
    return Gcp(Inventory("c", (host,), cloud="gcp"), client)


def s3(cloud: Cloud) -> S3Objects:
    return open_objects("b", SILENCE)


def gcs(cloud: Cloud) -> GcsObjects:
    return GcsObjects(StorageClient(requests.Session(), cloud.address, silence=SILENCE), "b")


def write(objects: Callable[[Cloud], Any], cloud: Cloud) -> None:
    objects(cloud).write("k", b"data")


def read(objects: Callable[[Cloud], Any], cloud: Cloud) -> None:
    assert b"".join(objects(cloud).read("k")) == CONTENT


def upload(objects: Callable[[Cloud], Any], cloud: Cloud) -> None:
    with outlasting():  # as upload.upload does
        write(objects, cloud)


def stopped(machines: Callable[[Cloud], Any], cloud: Cloud) -> None:
    cloud.state = "stopped"
    clock = Clock(lambda: cloud.time, cloud.sleep)
    states = wait_for_state(machines(cloud), ["stopped"], limit=LASTING, clock=clock)
    assert states["m1"].state == "stopped"


CALLS: dict[str, tuple[Callable[[Cloud], object], float]] = {  # and what it outlasts
    "describe, AWS": (lambda c: aws(c).instance_states(), CALL),
    "describe, Google": (lambda c: gcp(c).instance_states(), CALL),
    "stop, AWS": (lambda c: aws(c).stop(), LASTING),
    "stop, Google": (lambda c: gcp(c).stop(), LASTING),
    "delete, AWS": (lambda c: aws(c).terminate(), LASTING),
    "delete, Google": (lambda c: gcp(c).terminate(), LASTING),
    "wait, AWS": (lambda c: stopped(aws, c), LASTING),
    "wait, Google": (lambda c: stopped(gcp, c), LASTING),
    "write, AWS": (lambda c: write(s3, c), CALL),
    "write, Google": (lambda c: write(gcs, c), CALL),
    "read, AWS": (lambda c: read(s3, c), CALL),
    "read, Google": (lambda c: read(gcs, c), CALL),
    "upload, AWS": (lambda c: upload(s3, c), LASTING),
    "upload, Google": (lambda c: upload(gcs, c), LASTING),
}
FAULTS = (
    *(("503", seconds) for seconds in (2, 20, 120, 700)),
    ("throttled", 20),
    ("dropped", 20),
    ("no answer", 20),
)
DONE = {
    "stop, AWS": ["StopInstances"],
    "stop, Google": ["POST stop"],
    "delete, AWS": ["TerminateInstances"],
    "delete, Google": ["DELETE i"],
}


@pytest.mark.parametrize(("fault", "outage"), FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_outlasts_an_outage_shorter_than_its_time(
    cloud: Cloud, call: str, fault: str, outage: float
) -> None:
    """A longer one ends it, soon after its time."""
    work, limit = CALLS[call]
    cloud.fault, cloud.until = fault, outage
    if outage < limit:
        work(cloud)
        assert outage <= cloud.time < outage + 45
        assert cloud.changes == DONE.get(call, cloud.changes)
        return
    with pytest.raises(Exception) as caught:
        work(cloud)
    assert limit <= cloud.time < limit + 65 and not cloud.changes
    if call.partition(",")[0] in ("describe", "stop", "delete", "wait"):
        assert isinstance(caught.value, RailheadError)


def test_no_capacity_is_not_an_outage(cloud: Cloud) -> None:
    """EC2 says so with the status of an overloaded server, 500."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Refused) as caught:
        patch.setattr(
            Handler,
            "_ec2",
            lambda self, _: self._send(500, AWS_ERROR.format("InsufficientInstanceCapacity")),
        )
        aws(cloud).instance_states()
    assert caught.value.error_code == "InsufficientInstanceCapacity" and cloud.time == 0


def test_a_create_is_not_sent_twice_to_google(cloud: Cloud) -> None:
    """It may be two machines."""
    cloud.fault, cloud.until = "503", 20
    client = GoogleClient(requests.Session(), compute=f"{cloud.address}compute/v1/")
    with pytest.raises(Refused):
        client("POST", "projects/p/zones/z/instances", json={})
    assert cloud.time == 0


@pytest.mark.parametrize("objects", [s3, gcs])
def test_a_broken_download_continues_with_the_same_version(
    cloud: Cloud, objects: Callable[[Cloud], Any]
) -> None:
    cloud.drops = [CHUNK + 10, 5]
    got = b"".join(objects(cloud).read("k"))
    assert hashlib.sha256(got).digest() == hashlib.sha256(CONTENT).digest()
    assert cloud.drops == []


@pytest.mark.parametrize("objects", [s3, gcs])
def test_a_download_whose_object_is_replaced_after_a_break_is_no_mixture(
    cloud: Cloud, objects: Callable[[Cloud], Any]
) -> None:
    cloud.drops = [CHUNK + 10]
    got, chunks = io.BytesIO(), objects(cloud).read("k")
    got.write(next(chunks))
    cloud.version = "2"
    with pytest.raises(Exception, match=r"PreconditionFailed|412"):
        got.writelines(chunks)
    assert got.getvalue() == CONTENT[: got.tell()] and got.tell() < len(CONTENT)
