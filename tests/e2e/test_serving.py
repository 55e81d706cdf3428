"""A trained model is served on the chief, answers by TensorFlow Serving's contract, and ends."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from e2e.local_hosts import Operator, listens, wait_until
from PIL import Image
from standins.servers import free_port

NAME = "digits"
TRAIN = ("train", "--set", "epochs=3", "--set", "export=on")


def rest(port: int, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and parsed body, by the documentation of TensorFlow Serving alone."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def endpoint_folder(operator: Operator, name: str = NAME) -> Path:
    return operator.home / f".railhead/clusters/ready/hosts/h1/home/.railhead/endpoints/{name}"


def server_pid(operator: Operator) -> int:
    """The process of the server, which has the marks of the endpoint and serves."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                command = (entry / "cmdline").read_bytes()
                if b"serving.__main__" in command and str(operator.home).encode() in command:
                    return int(entry.name)
    raise AssertionError("no server")


@contextlib.contextmanager
def tunnel(operator: Operator, port: int) -> Iterator[int]:
    """`fab tunnel` while the block runs; yields the local port."""
    process = operator.start("tunnel", str(port), "--local-port", "0")
    try:
        assert process.stdout
        line = next(line for line in process.stdout if "leads to" in line)
        yield int(line.split()[0].rpartition(":")[2])
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0 and "the tunnel has ended" in out


@pytest.fixture(scope="module")
def trained(ready: Path, shared_caches: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the training whose model all tests here serve, the last one on the hosts."""
    somebody = Operator(ready, tmp_path_factory.mktemp("trained"), shared_caches)
    somebody.fab(*TRAIN, seconds=200).ended(0)
    return somebody.last


@pytest.fixture
def port(operator: Operator) -> Iterator[int]:
    """A free port of the host; no endpoint is left after the test."""
    number = free_port()
    yield number
    if (operator.home / f".railhead/deployed/{NAME}.json").exists():
        operator.fab("undeploy", NAME)
    assert not listens(number)


def test_digits_from_training_to_undeploy(trained: Path, operator: Operator, port: int) -> None:
    evaluation = json.loads((trained / "evaluation.json").read_text())
    deploy = ("deploy", "--name", NAME, "--port", str(port))
    operator.fab("predict", NAME, "--samples", "1").ended(2, "is deployed", "next: fab deploy")
    at_least = f"accuracy={evaluation['accuracy']}"
    operator.fab("evaluate", trained.name, "--min", at_least).ended(0)
    operator.fab(*deploy).ended(0, f"endpoint {NAME} serves version 1")
    assert listens(port)
    operator.fab(*deploy).ended(2, f"endpoint {NAME} is deployed already", "--update")
    operator.fab("status").ended(0, f"endpoint {NAME} on h1 of ready", "ready, version 1")
    operator.fab("logs", "--endpoint", NAME).ended(0, "version 1")

    samples = str(evaluation["samples"])
    found = operator.fab("predict", NAME, "--samples", samples).ended(0)
    assert f"accuracy {evaluation['accuracy']:.4f} on {samples} samples" in found.out
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    Image.fromarray(pixels).save(operator.folder / "x.png")
    found = operator.fab("predict", NAME, "--file", "x.png", "--json").ended(0)
    body = {"instances": (pixels[None, ..., None] / 255).tolist()}
    [scores] = rest(port, f"/v1/models/{NAME}:predict", body)[1]["predictions"]
    assert json.loads(found.out.splitlines()[-1])[0] == pytest.approx(scores, abs=1e-4)
    with tunnel(operator, port) as local:
        documented_client(local)
    assert not listens(local)

    kill_under_load(operator, port)
    operator.fab("status").ended(0, "1 restart")

    record = operator.home / f".railhead/deployed/{NAME}.json"
    record.unlink()  # as on another computer
    operator.fab(*deploy).ended(2, "is deployed already", f"fab undeploy {NAME}")
    operator.fab("deploy", "--name", NAME, "--update").ended(0, "serves version 2")
    record.unlink()
    assert rest(port, f"/v1/models/{NAME}/versions/2")[1]["model_version_status"][0]["state"] == (
        "AVAILABLE"
    )
    operator.fab("undeploy", NAME).ended(0, "no process of it is left, nothing listens")
    assert not listens(port) and not endpoint_folder(operator).exists()
    assert not (endpoint_folder(operator).parents[2] / ".keras").exists()


def kill_under_load(operator: Operator, port: int) -> None:
    """SIGKILL of the server while clients send one request after another."""
    clients, stop, killed, lock = 8, threading.Event(), threading.Event(), threading.Lock()
    answered, failed = [0, 0], list[str]()  # answers before and after the kill

    def client() -> None:
        while not stop.is_set():
            try:
                code, _ = rest(port, f"/v1/models/{NAME}:predict", {"instances": [picture()]})
                problem = "" if code == 200 else f"status {code}"
            except (OSError, http.client.HTTPException) as error:
                problem = repr(error)
            with lock:
                answered[killed.is_set()] += not problem
                failed.extend([problem] if problem else [])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: answered[0] >= 5 * clients, 60, "the clients get answers")
        os.kill(server_pid(operator), signal.SIGKILL)
        killed.set()
        # The socket is the supervisor's: a request that comes now waits for the new server.
        wait_until(lambda: answered[1] >= 5 * clients, 90, "the new server answers")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(failed) <= clients, failed  # those that the server had taken


def picture() -> list[Any]:
    return [[[0.5]] * 8] * 8


def documented_client(port: int) -> None:
    """Every call of the documentation, errors included."""
    model = f"/v1/models/{NAME}"
    status = {"version": "1", "state": "AVAILABLE"}
    status_found = rest(port, model)[1]["model_version_status"][0]
    assert status_found == {**status, "status": {"error_code": "OK", "error_message": ""}}
    metadata = rest(port, f"{model}/metadata")[1]
    signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    (name,) = signature["inputs"]
    rows = rest(port, f"{model}:predict", {"instances": [picture(), picture()]})[1]["predictions"]
    named = rest(port, f"{model}/versions/1:predict", {"instances": [{name: picture()}]})
    columns = rest(port, f"{model}:predict", {"inputs": {name: [picture()]}})
    assert len(rows) == 2 and len(named[1]["predictions"][0]) == 10
    assert columns[1]["outputs"][0] == pytest.approx(rows[0], abs=1e-4)
    refused = {
        (f"{model}:predict", b"{"): 400,
        (f"{model}:predict", b'{"instances": [NaN]}'): 400,
        (f"{model}:predict", json.dumps({"instances": [[1, 2]]}).encode()): 400,
        (f"{model}:predict", b'{"instances": [[["x"]]]}'): 400,
        (f"{model}:predict", json.dumps({"instances": [b64()]}).encode()): 400,
        (f"{model}/versions/7:predict", b'{"instances": [1]}'): 404,
        ("/v1/models/other:predict", b'{"instances": [1]}'): 404,
        ("/v1/models/other", None): 404,
        ("/v1/nothing", None): 400,
        (f"{model}:predict", b" " * 100_000_000): 413,
    }
    for (path, body), code in refused.items():
        found = rest(port, path, body)
        assert found[0] == code and list(found[1]) == ["error"], (path, found)


def b64() -> dict[str, str]:
    return {"b64": base64.b64encode(b"x").decode()}


def test_an_endpoint_ends_when_its_time_is_over(
    trained: Path, operator: Operator, port: int
) -> None:
    deploy = ("deploy", trained.name, "--name", NAME, "--port", str(port))
    operator.fab(*deploy).ended(0, "it ends in")
    file = endpoint_folder(operator) / "endpoint.json"
    document = {**json.loads(file.read_text()), "until": time.time() + 1}
    file.with_name("part").write_text(json.dumps(document))  # the hour is nearly over
    file.with_name("part").rename(file)
    state = endpoint_folder(operator) / "state.json"
    wait_until(lambda: json.loads(state.read_text())["state"] == "ended", 90, "its time is over")
    assert not listens(port)
    operator.fab("status").ended(0, "ended: its time-to-live is over")
    operator.fab("predict", NAME, "--samples", "1").ended(2, "its time-to-live is over")
    operator.fab("undeploy", NAME).ended(0, "had ended before")


def test_a_model_is_deployed_to_a_host_that_did_not_train_it(
    trained: Path, operator: Operator, port: int, tmp_path: Path
) -> None:
    """As on a stack of one machine for endpoints: its hosts are not those of the run, and the
    results of the run are here. The runtime is on the host already."""
    run_id = trained.name
    other = Operator(tmp_path / "laptop", operator.folder, operator.caches)
    record = Path(f".railhead/clusters/ready/runs/{run_id}.json")
    for path, text in (
        (record, (operator.home / record).read_text()),
        (Path(".ssh/config"), ssh_config(operator)),
    ):
        (other.home / path).parent.mkdir(parents=True, mode=0o700)
        (other.home / path).write_text(text)
    other.fab("trust", "--hosts", "h2", "--yes").ended(0)
    deploy = ("deploy", run_id, "--name", NAME, "--port", str(port), "--hosts", "h2")
    other.fab(*deploy).ended(0, f"endpoint {NAME} serves version 1 on h2")
    accuracy = json.loads((trained / "evaluation.json").read_text())["accuracy"]
    found = other.fab("predict", NAME, "--samples", "360").ended(0)
    assert f"accuracy {accuracy:.4f} on 360 samples" in found.out
    other.fab("undeploy", NAME).ended(0, "nothing listens")
    assert not listens(port)


def ssh_config(operator: Operator) -> str:
    """Names, ports, keys and pinned host keys of the two hosts."""
    lines = operator.fab("ssh-config").ended(0).out.splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(("Host ", "  ")))
