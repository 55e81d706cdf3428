"""The supervisor of an endpoint, with a small server in place of TensorFlow's."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from standins import programs
from standins.supervised_endpoint import SupervisedEndpoint

from bootstrap.errors import RailheadError
from bootstrap.host.base.programs import ENDPOINT, NAME
from bootstrap.host.run import machine_use
from bootstrap.serving import records
from bootstrap.serving import undeploy as undeploying
from bootstrap.serving.place import place_here
from railhead.documents.serving.endpoint import Deployed

# Answers /healthz on the socket of its supervisor; crashes, hangs or refuses to start on demand.
SERVER = """
import http.server, json, os, socket, sys, threading, time
while os.path.exists("loading"):
    time.sleep(0.01)
if os.path.exists("broken"):
    print("the model is broken"); sys.exit(3)
hung = threading.Event()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(9)
        if self.path == "/hang" or hung.is_set():
            hung.set(); threading.Event().wait()
        body = json.dumps({"status": "ok", "version": 1, "requests": 5, "failed": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
def end_with_parent():
    while os.read(0, 1):
        pass
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
server.socket = socket.socket(fileno=int(sys.argv[-1]))
print("serving", flush=True)
server.serve_forever()
"""


class Endpoint(SupervisedEndpoint):
    """An endpoint with SERVER."""

    def __init__(self, home: Path, name: str = "m", **changes: Any) -> None:
        super().__init__(home, name)
        (self.folder / "server.py").write_text(SERVER)
        argv = [sys.executable, str(self.folder / "server.py")]
        self.serve_with(**{"argv": argv, **changes})

    def change(self, constant: str, value: str) -> None:
        """Give a constant of the supervisor another value."""
        program = programs.own(self.folder) / "host/serve/endpoint.py"
        changed = re.sub(rf"(?m)^{constant} = .*", f"{constant} = {value}", program.read_text())
        program.write_text(changed)

    def get(self, path: str) -> bytes:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            body: bytes = answer.read()
            return body

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def endpoint(home: Path) -> Endpoint:
    return Endpoint(home)


def test_it_serves_until_it_is_ended(endpoint: Endpoint) -> None:
    with endpoint.runs() as process:
        state = endpoint.wait("ready")
        assert (state["version"], state["requests"], state["pid"]) == (1, 5, process.pid)
        assert b"ok" in endpoint.get("/healthz")
    assert endpoint.state["state"] == "ended" and "undeploy" in endpoint.state["reason"]
    assert not endpoint.listens()
    assert "serving" in (endpoint.folder / "logs/server.log").read_text()


def test_requests_during_a_restart_wait_and_are_answered(endpoint: Endpoint) -> None:
    with endpoint.runs():
        endpoint.wait("ready")
        for _ in range(2):
            with pytest.raises(OSError):
                endpoint.get("/crash")
            assert b"ok" in endpoint.get("/healthz"), "it waited for the new server"
        wait_until(lambda: endpoint.state.get("restarts") == 2, 30, "two restarts")
        endpoint.wait("ready")


def test_a_server_that_hangs_is_replaced(endpoint: Endpoint) -> None:
    endpoint.change("HUNG", "0.1")
    with endpoint.runs():
        endpoint.wait("ready")
        with pytest.raises(OSError):
            endpoint.get("/hang")
        wait_until(lambda: endpoint.state.get("restarts") == 1, 60, "a restart")
        endpoint.wait("ready")


def test_a_server_that_loads_for_longer_than_a_hang_is_waited_for(endpoint: Endpoint) -> None:
    endpoint.change("HUNG", "0.1")
    (endpoint.folder / "loading").touch()
    beats: set[float] = set()

    def has_looked_again() -> bool:
        beats.add(endpoint.state.get("heartbeat", 0.0))
        return len(beats) > 3

    with endpoint.runs():
        wait_until(has_looked_again, 60, "the server is looked at while it loads")
        (endpoint.folder / "loading").unlink()
        wait_until(lambda: endpoint.state.get("state") == "ready", 60, "it serves")
        assert endpoint.state["restarts"] == 0


def test_crashes_that_are_long_past_do_not_count_and_the_log_starts_again(
    endpoint: Endpoint,
) -> None:
    endpoint.change("PAUSES", "(0.0,)")
    endpoint.change("WINDOW", "0.0")
    endpoint.change("LOG", "5")
    with endpoint.runs():
        for number in range(3):
            endpoint.wait("ready")
            with pytest.raises(OSError):
                endpoint.get("/crash")
            restarts = number + 1
            wait_until(lambda n=restarts: endpoint.state.get("restarts") == n, 30, "a restart")
    logs = [
        (endpoint.folder / "logs" / name).read_text() for name in ("server.log", "server.log.1")
    ]
    assert logs == ["serving\n"] * 2


def test_a_server_that_opens_its_port_itself_finds_it_free(endpoint: Endpoint) -> None:
    """As Jupyter does: two that listen would not get along."""
    (endpoint.folder / "health.json").write_text('{"version": 7}')
    server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(endpoint.port)]
    endpoint.serve_with(server, opens_port=True, health="/health.json")
    with endpoint.runs():
        assert endpoint.wait("ready")["version"] == 7
        assert b"7" in endpoint.get("/health.json")
    assert not endpoint.listens()


def test_its_heartbeat_continues_while_it_waits_before_a_restart(endpoint: Endpoint) -> None:
    """The first restart is at once."""
    endpoint.change("PAUSES", "(0.0, 600.0)")
    endpoint.change("BEAT", "0.1")
    with endpoint.runs():
        for restarts in (1, 2):
            endpoint.wait("ready")
            with pytest.raises(OSError):
                endpoint.get("/crash")
            wait_until(lambda n=restarts: endpoint.state.get("restarts") == n, 30, "a restart")
        before = endpoint.wait("restarting")["heartbeat"]
        wait_until(lambda: endpoint.state["heartbeat"] > before, 30, "a later heartbeat")
        assert endpoint.state["state"] == "restarting"


def test_a_model_that_does_not_load_ends_it_with_the_reason(endpoint: Endpoint) -> None:
    (endpoint.folder / "broken").touch()
    with endpoint.runs():
        assert "the model is broken" in endpoint.wait("failed")["reason"]
        wait_until(lambda: not endpoint.listens(), 60, "the port is closed")


def test_a_runtime_that_is_gone_is_the_reason(home: Path) -> None:
    endpoint = Endpoint(home, argv=["/no/python"])
    with endpoint.runs() as process:
        process.wait(30)
    assert "could not be started" in endpoint.wait("failed")["reason"]


def test_a_port_in_use_is_named(endpoint: Endpoint) -> None:
    with socket.create_server(("127.0.0.1", endpoint.port)), endpoint.runs():
        assert f"port {endpoint.port} is in use" in endpoint.wait("failed")["reason"]


def test_nothing_listens_when_the_supervisor_is_killed(endpoint: Endpoint) -> None:
    with endpoint.runs() as process:
        endpoint.wait("ready")
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not endpoint.listens(), 60, "the server ended with it")


def test_the_time_to_live_can_be_moved_and_then_ends_it(endpoint: Endpoint) -> None:
    with endpoint.runs() as process:
        endpoint.wait("ready")
        endpoint.write({**endpoint.document, "until": time.time() + 0.5})
        process.wait(30)
    assert endpoint.state["reason"] == "its time-to-live is over" and not endpoint.listens()


def over(home: Path) -> Endpoint:
    """An endpoint of a stack's machine whose time is over at once."""
    stop = ["sh", "-c", f"echo stopped >{home}/stopped"]
    return Endpoint(home, until=time.time() - 1, stop=stop)


def test_at_its_end_the_machine_stops(home: Path) -> None:
    endpoint = over(home)
    with endpoint.runs() as process:
        process.wait(30)
    assert endpoint.state["machine"] == "stop command sent" and (home / "stopped").exists()


@pytest.mark.parametrize("ready", [True, False])
def test_a_server_that_cannot_be_kept_stops_the_machine_if_it_has_served(
    home: Path, ready: bool
) -> None:
    """Nobody may be there to see it; who starts an endpoint sees that it does not start."""
    endpoint = Endpoint(home, stop=["sh", "-c", f"echo stopped >{home}/stopped"])
    endpoint.change("PAUSES", "(0.0, 0.1)")
    broken = endpoint.folder / "broken"
    if not ready:
        broken.touch()
    with endpoint.runs() as process:
        if ready:
            endpoint.wait("ready")
            broken.touch()
            with pytest.raises(OSError):
                endpoint.get("/crash")
        process.wait(60)
    assert endpoint.state["state"] == "failed"
    assert (home / "stopped").exists() == ready


def test_a_stop_command_that_hangs_is_given_up_and_reported(home: Path) -> None:
    """Until then no run could start on the machine: the endpoint holds the lock of runs."""
    endpoint = over(home)
    endpoint.write({**endpoint.document, "stop": ["sleep", "600"]})
    endpoint.change("STOPPING", "0.2")
    with endpoint.runs() as process:
        process.wait(30)
    assert endpoint.state["machine"] == "not stopped: not finished within 0.2 s"


def test_the_machine_is_left_to_a_run(home: Path) -> None:
    endpoint = over(home)
    with (home / ".railhead/supervisor.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with endpoint.runs() as process:
            process.wait(30)
    assert endpoint.state["machine"] == "left to a run" and not (home / "stopped").exists()


def test_the_machine_is_left_to_a_run_that_still_stops_machines(home: Path) -> None:
    endpoint, program = over(home), home / ".railhead/runs/r1" / NAME
    program.parent.mkdir(parents=True)
    program.write_text("import time; print(flush=True); time.sleep(600)")
    argv = [sys.executable, "-I", "-S", str(program), "supervisor.stop_machines"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stopper:
        assert stopper.stdout and stopper.stdout.readline()
        with endpoint.runs() as process:
            process.wait(30)
        stopper.kill()
    assert endpoint.state["machine"] == "left to a run" and not (home / "stopped").exists()


@pytest.mark.parametrize(("age", "kept"), [(1.0, True), (60.0, False)])
def test_the_machine_is_left_to_an_endpoint_that_lives(home: Path, age: float, kept: bool) -> None:
    endpoint, other = over(home), home / ".railhead/endpoints/other"
    other.mkdir()
    state = {"state": "ready", "pid": 2, "heartbeat": time.time() - age}
    (other / "state.json").write_text(json.dumps(state))
    with endpoint.runs() as process:
        process.wait(30)
    assert (endpoint.state["machine"] == "left to endpoint other") is kept
    assert (home / "stopped").exists() is not kept


def test_an_endpoint_that_ends_does_not_keep_its_own_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk its last state says that it serves."""
    monkeypatch.setattr(machine_use, "ENDPOINTS", str(tmp_path))
    state = {"state": "ready", "pid": 2, "heartbeat": time.time()}
    for name, other in (("m", ""), ("n", "n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(json.dumps(state))
        assert machine_use.live_endpoint(besides="m") == other
    assert machine_use.live_endpoint() == "m"


@pytest.mark.usefixtures("known_facts")
def test_an_endpoint_whose_port_is_still_open_is_not_gone(home: Path) -> None:
    folder = home / ".railhead/endpoints/m"
    folder.mkdir(parents=True)
    (folder / NAME).write_text("import time; time.sleep(600)")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        subprocess.Popen([sys.executable, str(folder / NAME), ENDPOINT]) as supervisor,
        place_here() as here,
    ):
        endpoint = Deployed("m", None, "here", server.getsockname()[1], None)
        records.save(endpoint)
        (folder / "state.json").write_text(json.dumps({"state": "ready", "pid": supervisor.pid}))
        with pytest.raises(RailheadError, match=f"port {endpoint.port} is open"):
            undeploying.undeploy(here, endpoint)
        assert supervisor.wait(60) and records.find("m") == endpoint
