"""JupyterLab in the runtime of the hosts, reached through a tunnel, ended by `fab undeploy`."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.local_hosts import Operator, homes_of_hosts, run_id, wait_until
from standins.stores.servers import free_port

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def api(address: str, path: str, body: Any = None, method: str | None = None) -> Any:
    base, _, token = address.partition("lab?token=")
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"token {token}"} if token else {}
    request = urllib.request.Request(f"{base}api{path}", data, headers, method=method)
    with DIRECT.open(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture
def port(operator: Operator) -> Iterator[int]:
    """A free port of the host; no notebook is left after the test."""
    yield free_port()
    if (operator.home / ".railhead/deployed/notebook.json").exists():
        operator.fab("undeploy", "notebook")


def test_a_notebook_runs_in_the_runtime_and_ends(operator: Operator, port: int) -> None:
    """Also if the last run was on other hosts alone, as a trial of a sweep, and if the user of the
    host has settings of Jupyter, which have another token."""
    for home in homes_of_hosts(operator.home):
        (home / ".jupyter").mkdir(exist_ok=True)
        settings = {"IdentityProvider": {"token": "of-the-user"}}
        (home / ".jupyter/jupyter_server_config.json").write_text(json.dumps(settings))
    operator.write("train.py", "")
    words = ("--script", "train.py", "--launcher", "tensorflow", "--independent")
    run = run_id(operator.fab("train", *words).out)
    shutil.rmtree(operator.run_folder(run))
    shown = operator.start("notebook", "--port", str(port), "--local-port", "0")
    assert shown.stdout
    address = next(line for line in shown.stdout if "http://" in line).split()[0]
    assert "token=" in address and f":{port}/" not in address
    try:
        api(address.partition("lab")[0], "/kernels")
        raise AssertionError("it answers without the token")
    except urllib.error.HTTPError as refused:
        assert refused.code == 403
    specs = api(address, "/kernelspecs")["kernelspecs"]
    assert list(specs) == ["python3"]
    python = specs["python3"]["spec"]["argv"][0]
    assert "/.railhead/envs/" in python, "the kernel is the runtime's"
    kernel = api(address, "/kernels", {"name": "python3"})["id"]
    known = f"/kernels/{kernel}"
    wait_until(lambda: api(address, known)["execution_state"] != "dead", 150, "a kernel lives")
    shown.send_signal(signal.SIGINT)
    out, _ = shown.communicate(timeout=30)
    assert shown.returncode == 0 and "the notebook continues" in out
    operator.fab("status").ended(0, "endpoint notebook on h1", "ready")
    again = operator.start("notebook", "--local-port", "0")
    assert again.stdout
    second = next(line for line in again.stdout if "http://" in line).split()[0]
    assert second.partition("token=")[2] == address.partition("token=")[2]
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=30)
    operator.fab("undeploy", "notebook").ended(0, "no process left, nothing listens")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
