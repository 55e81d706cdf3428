"""How long `railhead.Endpoint.predict` takes, against a bare HTTP call of the same server.

    python -m benchmarks.predict [--calls 300]

A local host with a real sshd, and a model that doubles its input, in a separate process. Each
call sends one picture of 28x28. The bare call is http.client on this machine, without SSH, with its
connection kept open too; both take turns. The first call opens the connection and is shown alone.
Exit 1 if the median of a later call is over LIMIT.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import railhead
from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.inventory import local_state
from bootstrap.serving.records import save
from railhead.documents.serving.endpoint import Deployed

LIMIT = 0.030  # seconds
SIZE = 28
SERVE = f"""
import sys
sys.path.insert(0, "tests")
from standins.served_model import ServedModel, pictures
model = ServedModel(pictures({SIZE}), lambda arrays: {{"y": arrays["x"] * 2}})
print(model.port, flush=True)
sys.stdin.read()
"""


def took(call: Callable[[], object]) -> float:
    """Its seconds."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def bare(port: int, picture: list[object]) -> Callable[[], object]:
    """A call of the server without SSH."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call() -> object:
        body = json.dumps({"instances": picture})
        connection.request("POST", "/v1/models/m:predict", body)
        return json.loads(connection.getresponse().read())

    return call


def measure(port: int, calls: int) -> bool:
    """Print the figures; whether they are within the limit."""
    picture = np.random.default_rng(1).random((1, SIZE, SIZE, 1), np.float32)
    endpoint, http_call = railhead.Endpoint("m"), bare(port, picture.tolist())
    first = took(lambda: endpoint.predict(picture))
    http_call()
    rows = [(took(lambda: endpoint.predict(picture)), took(http_call)) for _ in range(calls)]
    endpoint.close()
    ours, theirs = ([row[n] for row in rows] for n in (0, 1))
    print(f"first call, which opens the connection  {first * 1000:8.1f} ms")
    for name, values in (("Endpoint.predict", ours), ("bare HTTP", theirs)):
        print(
            f"{name:<17} p50 {median(values) * 1000:6.2f} ms, "
            f"p99 {quantiles(values, n=100)[98] * 1000:6.2f} ms"
        )
    print(
        f"ratio of the medians {median(ours) / median(theirs):.1f}; load {os.getloadavg()[0]:.1f}"
    )
    return median(ours) <= LIMIT


def main() -> int:
    """Measure on a local host."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.predict")
    options.add_argument("--calls", type=int, default=300)
    calls = options.parse_args().calls
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        inventory = local_cluster.start("predict", 1)
        try:
            local_state.save_cluster(inventory)
            [machine] = local_cluster.existing("predict")
            folder = machine.home / ".railhead/endpoints/m"
            folder.mkdir(parents=True)
            state = {"state": "ready", "pid": 7, "heartbeat": 1.0, "until": 4e9}
            (folder / "state.json").write_text(json.dumps(state))
            argv = [sys.executable, "-c", SERVE]
            with subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as server:
                assert server.stdin and server.stdout
                port = int(server.stdout.readline())
                save(Deployed("m", "predict", "h1", port, None))
                try:
                    return 0 if measure(port, calls) else 1
                finally:
                    server.stdin.close()
        finally:
            local_cluster.destroy("predict")


if __name__ == "__main__":
    sys.exit(main())
