"""The server itself, with models of TensorFlow: limits, versions, models that do not load."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from places import ROOT
from standins.runtime_cases import Runtime
from standins.stores.servers import free_port

LOCK = ROOT / "locks/serving.txt"
PREDICT = "/v1/models/m:predict"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packages(shared_caches: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the lock, as `fab deploy` sends them."""
    folder = tmp_path_factory.mktemp("packages")
    argv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--no-deps"]
    argv += ["--require-hashes", "--target", str(folder), "-r", str(LOCK)]
    subprocess.run(argv, check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def models(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1 and 2 of a model."""
    folder = tmp_path_factory.mktemp("models")
    failure = runtime.run(Path(__file__).with_name("two_versions.py"), "write", str(folder))
    assert not failure, failure
    return folder


class Server:
    """A server with its own folder of versions."""

    def __init__(self, python: str, packages: Path, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder
        argv = [python, "-m", "training.serving", "--model", str(folder), "--name", "m"]
        argv += ["--port", str(self.port), *options]
        path = f"{ROOT}{os.pathsep}{packages}"
        environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1"}
        self.process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)

    def call(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, text if path == "/metrics" else json.loads(text)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def status(self, path: str, body: bytes | None = None, **headers: str) -> int:
        """The status of a response to a request with these headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET" if body is None else "POST", path, body, named)
            return connection.getresponse().status

    def sends(self, data: bytes) -> socket.socket:
        """A connection on which a client has sent a part of a request."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(data)
        return connection

    def predict(self, **body: Any) -> tuple[int, Any]:
        return self.call(PREDICT, body)

    def sleep(self, seconds: float) -> tuple[int, Any]:
        return self.predict(signature_name="sleep", instances=[seconds])

    def metrics(self) -> dict[str, float]:
        """What it counts, by name and labels."""
        text = self.call("/metrics")[1].decode()
        rows = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in rows}

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.call("/healthz")[0] == 200
        except OSError:
            return False

    def add_version(self, source: Path) -> None:
        shutil.copytree(source, self.folder / ".part")
        (self.folder / ".part").rename(self.folder / source.name)


def head(server: Server, length: int) -> bytes:
    """The head of a request to predict."""
    lines = f"POST {PREDICT} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    return f"{lines}Content-Length: {length}\r\n\r\n".encode()


def answers(client: socket.socket) -> list[int]:
    """The status of each response until the connection closes."""
    received = b""
    while data := client.recv(9999):
        received += data
    return [int(status) for status in re.findall(rb"HTTP/1.1 ([0-9]+)", received)]


@pytest.fixture(scope="module")
def server(
    runtime_python: str, packages: Path, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """It serves version 1, with low limits."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(models / "1", folder / "1")
    limits = ("--max-requests", "2", "--timeout-s", "3", "--max-body-mb", "1")
    server = Server(runtime_python, packages, folder, *limits)
    try:
        wait_until(server.is_ready, 280, "it serves")
        yield server
    finally:
        server.process.terminate()
        server.process.communicate(timeout=30)


def test_signatures_and_bodies(server: Server) -> None:
    answered = server.predict(signature_name="measure", instances=["ab", {"b64": "/w=="}])
    assert answered[1] == {
        "predictions": [{"length": 2, "text_bytes": {"b64": "YWI="}},
                        {"length": 1, "text_bytes": {"b64": "/w=="}}]
    }  # fmt: skip
    code, error = server.predict(signature_name="none", instances=[1])
    assert code == 400 and "measure, serving_default, sleep" in error["error"]
    assert server.call(PREDICT, b" " * 50_000_000)[0] == 413
    assert server.sends(head(server, length=2_000_000)).recv(99).split()[1] == b"413"
    zipped = gzip.compress(b'{"instances": [[1, 2]]}')
    assert server.status(PREDICT, zipped, Content_Encoding="gzip") == 200
    for path, sent in ((PREDICT, zipped), ("/metrics", None), ("/healthz", None)):
        assert server.status(path, sent, Host=f"evil.example:{server.port}") == 403
        assert server.status(path, sent, Origin="http://evil.example") == 403
    assert server.status("/metrics", Origin=f"http://127.0.0.1:{server.port}") == 200
    counts = server.metrics()
    assert counts['railhead_requests_total{code="413",method="predict"}'] == 2
    assert counts["railhead_model_version"] == 1


def test_limits_of_time_and_number(server: Server) -> None:
    half = server.sends(b"GET /healthz HTTP/1.1\r\nHost: 127")
    slow = [server.sends(head(server, length=9) + b"{") for _ in range(3)]
    first = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    second = server.sends(first + head(server, length=9) + b"{")
    answered = server.predict(instances=[[1, 2]])
    assert answered == (200, {"predictions": [[2, 3]]}), "a slow body takes no place"
    with ThreadPoolExecutor(4) as pool:
        codes = sorted(code for code, _ in pool.map(server.sleep, [0.5] * 4))
    assert 503 in codes and 200 in codes, "more than two at a time are refused"
    assert server.sleep(6.0) == (504, {"error": "no result within 3 s"})
    assert [client.recv(99).split()[1] for client in slow] == [b"408"] * 3
    counts = server.metrics()
    successes = counts['railhead_requests_total{code="200",method="predict"}']
    assert counts["railhead_predict_seconds_count"] == successes, "refusals do not count"
    assert half.recv(9) == b"", "a head has a time limit"
    assert answers(second) == [200, 408], "also the body of a second request has one"
    for client in (half, second, *slow):
        client.close()


def test_a_new_version_takes_over_without_a_refused_request(server: Server, models: Path) -> None:
    outcomes: list[tuple[int, Any]] = []
    changed = threading.Event()

    def client() -> None:
        while not changed.is_set():
            outcomes.append(server.predict(instances=[[1, 2]]))

    with ThreadPoolExecutor(2) as pool:  # as many as the server takes
        clients = [pool.submit(client) for _ in range(2)]
        try:
            wait_until(lambda: len(outcomes) > 20, 60, "requests are answered")
            server.add_version(models / "2")
            new = {"predictions": [[3, 4]]}
            wait_until(lambda: (200, new) in outcomes[-20:], 60, "the new version answers")
        finally:
            changed.set()
        for finished in clients:
            finished.result()
    assert {code for code, _ in outcomes} == {200}
    assert {json.dumps(answer) for _, answer in outcomes} == {
        '{"predictions": [[2.0, 3.0]]}', '{"predictions": [[3.0, 4.0]]}'
    }  # fmt: skip
    (server.folder / "3").mkdir()
    (server.folder / "3/saved_model.pb").write_text("no model")
    states = "/v1/models/m/versions/3"
    wait_until(lambda: server.call(states)[0] == 200, 30, "version 3 is tried")
    wait_until(lambda: "END" in str(server.call(states)), 30, "version 3 does not load")
    assert "does not load" in str(server.call(states)[1])
    assert server.predict(instances=[[1, 2]])[1] == new, "the one before serves on"
    shutil.rmtree(server.folder / "3")
    shutil.rmtree(server.folder / "2")
    old = {"predictions": [[2, 3]]}
    wait_until(lambda: server.predict(instances=[[1, 2]])[1] == old, 60, "back to version 1")


def test_a_model_that_does_not_load_ends_the_server_with_the_reason(
    runtime_python: str, packages: Path, tmp_path: Path
) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/x.keras").write_text("no zip")
    server = Server(runtime_python, packages, tmp_path / "m")
    began = time.monotonic()
    _, errors = server.process.communicate(timeout=280)
    assert server.process.returncode == 3, time.monotonic() - began
    assert "x.keras does not load" in errors and "Traceback" not in errors
