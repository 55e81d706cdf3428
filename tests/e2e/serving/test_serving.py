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
from e2e.local_hosts import (
    DIGITS,
    Operator,
    Training,
    json_lines,
    listens,
    only_first_host,
    wait_until,
    with_settings,
)  # fmt: skip
from PIL import Image
from standins.stores.servers import free_port

NAME = "digits"


def rest(port: int, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and parsed body, as the documentation of TensorFlow Serving describes them."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def endpoint_folder(operator: Operator, host: str = "h1") -> Path:
    return operator.home / f".railhead/clusters/ready/hosts/{host}/home/.railhead/endpoints/{NAME}"


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


@pytest.fixture
def port(operator: Operator) -> Iterator[int]:
    """A free port of the host; no endpoint is left after the test."""
    number = free_port()
    yield number
    if (operator.home / f".railhead/deployed/{NAME}.json").exists():
        operator.fab("undeploy", NAME)
    assert not listens(number)


def test_the_built_in_training_comes_back_with_all_its_results(trained: Training) -> None:
    for words in ("nothing was changed", "succeeded", "Keras 3", "strategy auto: horovod"):
        assert words in trained.out
    results = trained.results
    files = {p.relative_to(results).as_posix() for p in results.rglob("*") if p.is_file()}
    expected = "run.json metrics.jsonl result.json evaluation.json model.keras curves.svg"
    assert {*expected.split(), "logs/rank-0.log", "logs/rank-1.log"} <= files
    assert {record["host"] for record in json_lines(results / "metrics.jsonl")} == {"h1", "h2"}
    assert json.loads((results / "result.json").read_text())["size"] == 2
    run = json.loads((results / "run.json").read_text())
    assert (run["launcher"], run["strategy"]) == ("horovod", "horovod")


@pytest.mark.timeout(900)  # many commands, on a busy machine
def test_digits_from_training_to_undeploy(trained: Training, operator: Operator, port: int) -> None:
    evaluation = json.loads((trained.results / "evaluation.json").read_text())
    deploy = ("deploy", trained.results.name, "--name", NAME, "--port", str(port))
    operator.fab("predict", NAME, "--samples", "1").ended(2, "is deployed", "next: fab deploy")
    operator.fab("evaluate", trained.results.name, "--min", "accuracy=1.01").ended(3, "accuracy")
    deployed = operator.document(*deploy)
    assert (deployed["name"], deployed["version"], deployed["port"]) == (NAME, 1, port)
    assert listens(port)
    operator.fab(*deploy).ended(2, f"endpoint {NAME} is already deployed", "--update")
    operator.fab("status").ended(0, f"endpoint {NAME} on h1 of ready", "ready, version 1")
    operator.fab("logs", "--endpoint", NAME).ended(0, "version 1")

    samples = str(evaluation["samples"])
    predicted = operator.fab("predict", NAME, "--samples", samples).ended(0)
    assert f"accuracy {evaluation['accuracy']:.4f} on {samples} samples" in predicted.out
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    Image.fromarray(pixels).save(operator.folder / "x.png")
    predicted = operator.fab("predict", NAME, "--file", "x.png", "--json").ended(0)
    body = {"instances": (pixels[None, ..., None] / 255).tolist()}
    [scores] = rest(port, f"/v1/models/{NAME}:predict", body)[1]["predictions"]
    assert json.loads(predicted.out.splitlines()[-1])[0] == pytest.approx(scores, abs=1e-4)
    with tunnel(operator, port) as local:
        documented_client(local)
    assert not listens(local)

    kill_under_load(operator, port)
    operator.fab("status").ended(0, "1 restart")

    record = operator.home / f".railhead/deployed/{NAME}.json"
    record.unlink()  # as on another computer
    operator.fab(*deploy).ended(2, "is already deployed", f"fab undeploy {NAME}")
    operator.fab("deploy", trained.results.name, "--name", NAME, "--update").ended(
        0, "serves version 2"
    )
    record.unlink()
    assert rest(port, f"/v1/models/{NAME}/versions/2")[1]["model_version_status"][0]["state"] == (
        "AVAILABLE"
    )
    operator.fab("undeploy", NAME).ended(0, "no process left, nothing listens")
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
    reported = rest(port, model)[1]["model_version_status"][0]
    assert reported == {**status, "status": {"error_code": "OK", "error_message": ""}}
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
        status_code, answer = rest(port, path, body)
        assert status_code == code and list(answer) == ["error"], (path, status_code, answer)


def b64() -> dict[str, str]:
    return {"b64": base64.b64encode(b"x").decode()}


def test_train_deploys_the_model_of_a_run_that_succeeded(operator: Operator) -> None:
    command = (*with_settings((*DIGITS, "epochs=2")), "--deploy", NAME)
    with only_first_host(operator):
        trained = operator.document(*command)
    assert (trained["state"], operator.last.name) == ("succeeded", trained["run_id"])
    deployed = json.loads((operator.home / f".railhead/deployed/{NAME}.json").read_text())
    assert deployed["run_id"] == trained["run_id"] and listens(deployed["port"])
    operator.fab("undeploy", NAME).ended(0)
    assert not listens(deployed["port"])


def test_a_host_that_did_not_train_a_model_serves_it_until_its_time_is_over(
    trained: Training, operator: Operator, port: int, tmp_path: Path
) -> None:
    """As on a stack of one machine for endpoints: its hosts are not those of the run, and the
    results of the run are here. The runtime is on the host already."""
    run_id = trained.results.name
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
    other.fab(*deploy).ended(0, f"endpoint {NAME} serves version 1 on h2", "it ends in")
    accuracy = json.loads((trained.results / "evaluation.json").read_text())["accuracy"]
    predicted = other.fab("predict", NAME, "--samples", "360").ended(0)
    assert f"accuracy {accuracy:.4f} on 360 samples" in predicted.out

    folder = endpoint_folder(operator, host="h2")
    document = {**json.loads((folder / "endpoint.json").read_text()), "until": time.time() + 1}
    (folder / "part").write_text(json.dumps(document))  # the hour is nearly over
    (folder / "part").rename(folder / "endpoint.json")
    state = folder / "state.json"
    wait_until(lambda: json.loads(state.read_text())["state"] == "ended", 90, "its time is over")
    assert not listens(port)
    other.fab("status", "--hosts", "h2").ended(0, "ended: its time-to-live is over")
    other.fab("predict", NAME, "--samples", "1").ended(2, "its time-to-live is over")
    other.fab("undeploy", NAME).ended(0, "had already ended")


def ssh_config(operator: Operator) -> str:
    """Names, ports, keys and pinned host keys of the two hosts."""
    lines = operator.fab("ssh-config").ended(0).out.splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(("Host ", "  ")))
