"""`fab notebook` and `fab tunnel`: forward ports of a host, until Ctrl-C."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from railhead.documents.serving.endpoint import Deployed

from ..console.output import print_lines
from ..errors import Command
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..lifecycle import power, reach
from ..lifecycle.power import ClusterStatus
from ..serving import notebook, on_host
from ..serving.deploy import check_deadline, choose_port, refuse_elsewhere
from ..serving.environment import python_on_host
from ..serving.place import chief_place
from ..serving.records import record_cluster
from ..serving.source import ModelSource, source_of
from ..serving.state import status_line
from ..ssh.session import Session
from ..ssh.tunnel import require_open, tunnel


def open_notebook(
    status: ClusterStatus,
    run_id: str | None,
    port: int | None,
    local_port: int | None,
    seconds: float,
) -> None:
    """Start JupyterLab on the chief unless it runs there, and forward a local port to it until
    Ctrl-C; the notebook itself continues until its time-to-live is over. Stopped machines are
    started."""
    source = _run_or_none(run_id, status.inventory)
    cluster, chief = status.inventory.name, status.inventory.chief.name
    endpoint = Deployed(notebook.NAME, cluster, chief, notebook.PORT, source.run_id)
    refuse_elsewhere(endpoint)
    if is_stopped := chief in status.not_running:
        power.check_time_to_live(status, seconds, print_lines)
    with power.chief_started(status, print_lines) as inventory, chief_place(inventory) as place:
        session = place.session
        token = notebook.running(session)
        if token is None:
            if not is_stopped:
                power.check_time_to_live(status, seconds, print_lines)
            check_deadline(place, seconds)
            endpoint = replace(endpoint, port=choose_port(place, port, notebook.PORT))
            folder = source.run.folder if source.run else "~"
            if session.run(["test", "-d", folder]).rc:  # on another slice of a sweep, or removed
                print_lines(f"{folder} is not on {chief}: the notebook shows the home")
                folder = "~"
            wanted = notebook.Notebook(endpoint.port, seconds, folder)
            python = python_on_host(place, source.runtime)
            record_cluster(power.at_addresses(status.inventory, inventory))
            token = notebook.start(place, endpoint, wanted, python, print_lines)
        else:
            endpoint = on_host.read_endpoint(session, notebook.NAME, inventory.name)
        print_lines(status_line(session, endpoint))
        _forward(session, endpoint.port, local_port, f"lab?token={token}")
    again, end = Command("notebook", **inventory.target), Command("undeploy", notebook.NAME)
    print_lines(f"the notebook continues   # {again} opens it again, {end}")


def _run_or_none(run_id: str | None, inventory: Inventory) -> ModelSource:
    """The run, by default the last one on these hosts; no run if there is none."""
    if run_id is None and not local_state.runs(inventory.name):
        return ModelSource(None)
    return source_of(run_id, None, inventory)


def open_tunnel(inventory: Inventory, port: int, local_port: int | None) -> None:
    """Forward a local port to a port of the chief until Ctrl-C."""
    host = inventory.chief
    with reach.sessions(inventory.only([host.name])) as sessions:
        _forward(sessions.chief, port, local_port)
    print_lines("the tunnel has ended")


def _forward(session: Session, port: int, local_port: int | None, path: str = "") -> None:
    """Forward a local port until Ctrl-C; with a `path`, print its URL."""
    wanted = port if local_port is None else local_port
    with contextlib.suppress(KeyboardInterrupt), tunnel(session, port, wanted) as local:
        address = f"http://127.0.0.1:{local}/{path}" if path else f"127.0.0.1:{local}"
        print_lines(f"{address} leads to port {port} of {session.host.name}", "Ctrl-C ends it")
        while True:
            time.sleep(0.5)
            require_open(session)
