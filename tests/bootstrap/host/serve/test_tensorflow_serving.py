"""TensorFlow Serving's program behind an endpoint's socket, with a stand-in for the program.

The stand-in listens on all addresses, as the real one does. It was never run with the real one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import Done, Operator, wait_until
from places import TESTS
from standins.stores.servers import free_port
from standins.supervised_endpoint import SupervisedEndpoint

from bootstrap.cli import serving_tasks
from bootstrap.cli.running import Exit
from bootstrap.host.serve import tensorflow_serving as own_server
from bootstrap.host.serve.endpoint import health_of
from bootstrap.provision.local_environment import RUNTIME, environment_folder
from bootstrap.serving import tensorflow_serving
from bootstrap.serving.request import DeployRequest
from railhead.documents.serving.endpoint import Deployed, Health

STANDIN = TESTS / "standins/tensorflow_model_server"
UNPRIVILEGED = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all"]


class Endpoint(SupervisedEndpoint):
    """An endpoint with the stand-in on its PATH."""

    def __init__(self, home: Path, prefix: list[str]) -> None:
        server = tensorflow_serving.server(sys.executable, Deployed("m", None, "here", 1, None))
        super().__init__(home, prefix=prefix)
        (self.folder / "versions").mkdir()
        (home / "bin").mkdir()
        shutil.copy(STANDIN, home / "bin")
        options = DeployRequest("m").server_options(self.port)
        argv = [*server.command, "--model", str(self.folder / "versions"), *options]
        self.serve_with(argv, health=server.health)
        self.add_version(1)

    def add_version(self, number: int, *files: str) -> None:
        partial = self.folder / "partial"
        partial.mkdir()
        for name in ("saved_model.pb", *files):
            (partial / name).touch()
        partial.rename(self.folder / "versions" / str(number))

    def call(self, body: Any) -> Any:
        return predict(self.port, body)

    def server(self) -> int:
        """The process of the newest server."""
        log = (self.folder / "logs/server.log").read_text()
        return int(re.findall(r"serving (\d+)", log)[-1])


def predict(port: int, body: Any) -> Any:
    url = f"http://127.0.0.1:{port}/v1/models/m:predict"
    request = urllib.request.Request(url, data=json.dumps(body).encode())
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=60) as answer:
        return json.loads(answer.read())


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, home: Path, own_networks: None) -> Endpoint:
    return Endpoint(home, getattr(request, "param", []))


# Its separate network is created in another way, and must end with the endpoint.
both_ways = pytest.mark.parametrize(
    "endpoint", [[], UNPRIVILEGED], ids=["as it is", "unprivileged"], indirect=True
)


@pytest.fixture
def own_networks() -> None:
    """Skip where this user gets no network namespace."""
    if os.geteuid() and subprocess.run(["unshare", "--net", "--map-root-user", "true"]).returncode:
        pytest.skip("this machine gives this user no network namespace")


@both_ways
def test_it_serves_on_the_endpoints_port_and_nowhere_else(endpoint: Endpoint) -> None:
    before = listening()
    with endpoint.runs():
        endpoint.wait("ready", version=1)
        assert endpoint.call({"instances": [[1, 2]]}) == {"predictions": [[2, 4]]}
        network = Path(f"/proc/{endpoint.server()}/ns/net").readlink()
        assert network != Path("/proc/self/ns/net").readlink()
        new = {port for port in listening() - before if port in (8500, 8501)}
        assert not new, "the server listens in the network of the host"


def listening() -> set[int]:
    """The TCP ports on which this machine listens."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(row.split()[1].split(":")[1], 16) for row in rows if row.split()[3] == "0A"}


def test_many_requests_at_once_are_answered_and_large_ones_arrive(endpoint: Endpoint) -> None:
    rows = [[number] * 1000 for number in range(96)]
    with endpoint.runs(), ThreadPoolExecutor(32) as threads:
        endpoint.wait("ready")
        answers = list(threads.map(lambda row: endpoint.call({"instances": [row] * 20}), rows))
    assert [answer["predictions"][19][999] for answer in answers] == [2 * n for n in range(96)]


def test_a_new_version_takes_over_and_a_broken_one_is_named(endpoint: Endpoint) -> None:
    with endpoint.runs():
        endpoint.wait("ready", version=1)
        endpoint.add_version(2)
        endpoint.wait("ready", version=2)
        endpoint.add_version(3, "broken")
        state = endpoint.wait("ready", failed={"3": "the graph of version 3 is broken"})
        assert state["version"] == 2


def test_a_server_that_crashes_starts_again(endpoint: Endpoint) -> None:
    with endpoint.runs():
        endpoint.wait("ready")
        with pytest.raises(OSError):
            endpoint.call("crash")
        endpoint.wait("ready", restarts=1)
        assert endpoint.call({"instances": [[3]]}) == {"predictions": [[6]]}


def test_a_model_that_does_not_load_ends_the_endpoint(endpoint: Endpoint) -> None:
    (endpoint.folder / "versions/1/broken").touch()
    with endpoint.runs() as process:
        process.wait(60)
    assert "the graph of version 1 is broken" in endpoint.wait("failed")["reason"]


@both_ways
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_its_supervisor(endpoint: Endpoint, sign: signal.Signals) -> None:
    with endpoint.runs() as process:
        endpoint.wait("ready")
        server = endpoint.server()
        process.send_signal(sign)
        wait_until(lambda: not Path(f"/proc/{server}").exists(), 30, "the server has ended")
        wait_until(lambda: refuses(endpoint.port), 30, "nothing listens")


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_request_in_progress_is_answered_at_the_end(endpoint: Endpoint) -> None:
    with endpoint.runs() as process, ThreadPoolExecutor(1) as thread:
        endpoint.wait("ready")
        answer = thread.submit(endpoint.call, {"instances": [[1]], "seconds": 2})
        log = endpoint.folder / "logs/server.log"
        wait_until(lambda: "in progress" in log.read_text(), 30, "the request is there")
        process.terminate()
        assert answer.result(60) == {"predictions": [[2]]}


LOADING = {"version": "1", "state": "LOADING", "status": {"error_message": "x"}}
SERVING = {"version": "2", "state": "AVAILABLE", "status": {"error_message": ""}}
HEALTH = {
    "our server": ({"status": "ok", "version": 3, "requests": 1}, Health(3, 1)),
    "another one": ({"version": "2.14.0", "failed": None}, Health()),
    "loading": ({"model_version_status": [LOADING]}, None),
    "serving": ({"model_version_status": [LOADING, SERVING]}, Health(2, failed={"1": "x"})),
}


@pytest.mark.parametrize("response, health", HEALTH.values(), ids=HEALTH)
def test_a_health_response_is_understood(response: Any, health: Any) -> None:
    assert health_of(response) == health


# --- By the command line -----------------------------------------------------------------------


@pytest.fixture
def operator(home: Path, tmp_path: Path) -> Iterator[Operator]:
    """Somebody on this machine; the runtime of `--here` is a Python without packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
        python = environment_folder(RUNTIME) / "bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_text(name)
    (tmp_path / "m.keras").touch()
    operator = Operator(home, tmp_path, tmp_path / "caches")
    yield operator
    if (home / ".railhead/deployed/m.json").exists():
        operator.fab("undeploy", "m").ended(0)


def deploy(operator: Operator, *args: str) -> Done:
    path = f"{STANDIN.parent}{os.pathsep}{os.environ['PATH']}"
    command = ("deploy", "--here", "--trust-model", "--name", "m", "--server", "tensorflow-serving")
    return operator.fab(*command, *args, env={"PATH": path})


def test_deploy_uses_the_program_of_this_machine(operator: Operator, own_networks: None) -> None:
    port = free_port()
    deploy(operator, "--model", "one", "--port", str(port)).ended(0, "serves version 1 on this")
    assert predict(port, {"instances": [[4]]}) == {"predictions": [[8]]}
    deploy(operator, "--model", "m.keras", "--update").ended(2, "serves a SavedModel")
    deploy(operator, "--model", "two", "--update").ended(0, "serves version 2")
    operator.fab("undeploy", "m").ended(0, "no process left, nothing listens")


def refusal(**options: Any) -> str:
    """The message, and the command that comes next, of a deploy that is refused."""
    with pytest.raises(Exit) as refused:
        serving_tasks.deploy(here=True, trust_model=True, name="m", **options)
    assert refused.value.code == 2
    return str(refused.value.message)


@pytest.fixture
def here(
    operator: Operator, known_facts: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    """The folder in which the command is typed; the program is on the PATH."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(operator.caches))
    monkeypatch.setenv("PATH", str(STANDIN.parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_port_in_use_is_refused_before_anything_is_there(here: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(server="tensorflow-serving", model="one", port=str(port))
    assert f"port {port} of" in message and "next: the same command without --port" in message
    assert not (home / ".railhead/deployed/m.json").exists()
    assert not (home / ".railhead/endpoints").exists()


def test_deploy_refuses_what_the_program_cannot_serve(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = refusal(server="tensorflow-serving", model="m.keras")
    assert "serves a SavedModel" in message and "next: fab deploy" in message
    monkeypatch.setenv("PATH", os.environ["PATH"].removeprefix(f"{STANDIN.parent}{os.pathsep}"))
    message = refusal(server="tensorflow-serving", model="one")
    assert "has no tensorflow_model_server" in message
    assert "'triton' is not one of railhead, tensorflow-serving" in refusal(
        server="triton", model="one"
    )


def test_samples_wait_for_others_as_long_as_the_option_says() -> None:
    """The option is in milliseconds, the parameter in microseconds."""
    lines = own_server.batching(32, 2.5).splitlines()
    assert lines[:2] == ["max_batch_size { value: 32 }", "batch_timeout_micros { value: 2500 }"]
