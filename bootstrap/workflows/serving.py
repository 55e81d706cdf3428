"""`fab deploy`, `predict`, `undeploy`, `notebook` and `tunnel`, in order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.console.output import print_lines
from bootstrap.console.text import duration
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import existing_path
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import power, reach, timer
from bootstrap.provision.local_environment import runtime_here
from bootstrap.remote.serve.machine_use import ALIVE
from bootstrap.runs.start import Run
from bootstrap.serving import notebook, records
from bootstrap.serving import predict as prediction
from bootstrap.serving import undeploy as ending
from bootstrap.serving.deploy import Place, check_deadline, deploy, refuse_second, update
from bootstrap.serving.environment import (
    home_of,
    place_environment,
    python_on_host,
)
from bootstrap.serving.model import copy_on_chief, local_model, no_model, send_model
from bootstrap.serving.records import Deployed
from bootstrap.serving.request import DeployRequest
from bootstrap.serving.state import clock_of, read_document, read_state, status_line
from bootstrap.ssh.agents import start_agent
from bootstrap.ssh.local_session import HERE, local_session
from bootstrap.ssh.session import Session
from bootstrap.ssh.tunnel import require_open, tunnel


@dataclass(frozen=True)
class Source:
    """What is deployed: the model of a run, or a folder or file of this machine."""

    run: Run | None
    path: Path | None = None

    @property
    def run_id(self) -> str | None:
        """The id of the run, if it is the model of one."""
        return self.run.run_id if self.run else None

    def no_model_error(self, host: str) -> UsageError:
        """The error for a source without a model."""
        if self.run:
            return no_model(self.run.run_id, host)
        return UsageError(f"--model {self.path}: no SavedModel and no .keras file")


def source_of(run_id: str | None, model: str | None, inventory: Inventory | None = None) -> Source:
    """The run with this id, else the last one of these hosts; or what --model names.

    Raises:
        UsageError: no such run is recorded, or there is no such file.
    """
    if model is not None:
        path = existing_path(model)
        if path is None:
            raise UsageError(f"--model {model}: there is no such file or folder")
        return Source(None, path)
    if run_id is not None:
        record = local_state.recorded_run(run_id)
        return Source(Run(record["run_id"], Path(record["results"])))
    chosen = inventory or local_state.last_cluster()
    last, results = local_state.find_run(chosen, None)
    document = _document(last)
    if evaluated := document.get("evaluates"):  # it has no model of its own
        return source_of(evaluated, None)
    return Source(Run(last, results))


def _document(run_id: str) -> dict[str, Any]:
    """The recorded run document; {} in a record that was damaged or is of an older version."""
    return local_state.recorded_run(run_id).get("document") or {}


def deploy_here(request: DeployRequest, source: Source) -> None:
    """Serve a model on this machine.

    Raises:
        UsageError: there is no model, or an endpoint of this name serves.
    """
    model = local_model(source.path or _results(source))
    if model is None:
        raise source.no_model_error(HERE)
    with local_session() as session:
        place = Place(session, start_agent(session))
        endpoint = Deployed(request.name, None, HERE, request.port, source.run_id)
        _refuse_elsewhere(endpoint)
        again = refuse_second(place, request)
        folder = _absolute(session, send_model(session, model))
        print_lines("getting the runtime ready (the first time takes minutes)")
        _start(place, request, endpoint, folder, str(runtime_here()), again)


def _results(source: Source) -> Path:
    assert source.run
    return source.run.results


def deploy_on_host(inventory: Inventory, request: DeployRequest, source: Source) -> None:
    """Serve a model on the chief of these hosts, all of which run.

    Raises:
        UsageError: there is no model or no runtime, an endpoint of this name serves, or the
            machine's deadline comes before the time-to-live is over.
    """
    chief = inventory.chief
    with reach.agents(inventory.only([chief.name])) as (sessions, pythons):
        session = sessions.chief
        place = _place(inventory, session, pythons[chief.name])
        endpoint = Deployed(request.name, inventory.name, chief.name, request.port, source.run_id)
        _refuse_elsewhere(endpoint)
        _check_time_to_live(inventory, request.seconds)
        again = refuse_second(place, request)
        python = _python(inventory, source)
        folder = _model_on_host(session, chief.name, source)
        _start(place, request, endpoint, folder, python, again)


def _check_time_to_live(inventory: Inventory, seconds: float) -> None:
    """UsageError if the chief powers itself off before. Its timer is read in a session of its own,
    because the agent runs in the other one."""
    if inventory.kind.in_cloud:
        with reach.sessions(inventory.only([inventory.chief.name])) as sessions:
            check_deadline(timer.read(sessions.chief), seconds)


def _place(inventory: Inventory, session: Session, python: str) -> Place:
    """The chief as the place of an endpoint."""
    stop = inventory.chief.stop if inventory.is_managed else None
    return Place(session, python, stop)


def _python(inventory: Inventory, source: Source) -> str:
    """The Python of the chief's runtime. The facts need a session of their own: the agent runs in
    the other one."""
    chief = inventory.chief.name
    document = _document(source.run.run_id) if source.run else {}
    digest = document.get("runtime", {}).get("digest")
    with reach.sessions(inventory.only([chief])) as sessions:
        return python_on_host(sessions.chief.facts(), chief, digest)


def _model_on_host(session: Session, host: str, source: Source) -> str:
    """The folder on the host that has the model, sent there unless it has it."""
    if found := local_model(source.path or _results(source)):
        return _absolute(session, send_model(session, found))
    folder = None
    if source.run:
        folder = copy_on_chief(session, source.run.folder, source.run.run_id)
    if folder is None:
        raise source.no_model_error(host)
    return _absolute(session, folder)


def _absolute(session: Session, folder: str) -> str:
    return folder.replace("~", home_of(session), 1)


def _refuse_elsewhere(endpoint: Deployed) -> None:
    """UsageError when an endpoint of this name is recorded at another place."""
    other = records.find(endpoint.name)
    if other and (other.cluster, other.host) != (endpoint.cluster, endpoint.host):
        raise UsageError(
            f"endpoint {other.name} is on {other.place} already",
            hint=f"fab undeploy {other.name}   # or another name: --name {other.name}-2",
        )


def _start(
    place: Place, request: DeployRequest, endpoint: Deployed, model: str, python: str, again: bool
) -> None:
    if again:
        endpoint = records.require(endpoint.name)
        state = update(place, request, endpoint, model, print_lines)
    else:
        environment = place_environment(place.session, python)
        print_lines(f"endpoint {endpoint.name}: loading the model on {endpoint.place}")
        state = deploy(place, request, endpoint, model, environment)
    left = duration(max(0.0, state.until - clock_of(place.session)))
    print_lines(
        f"endpoint {endpoint.name} serves version {state.version} on {endpoint.place}, "
        f"port {endpoint.port} of 127.0.0.1; it ends in {left}",
        f"next: fab predict {endpoint.name} --samples 10   # or --file x.png",
    )
    url = f"http://127.0.0.1:{endpoint.port}/v1/models/{endpoint.name}:predict"
    there = endpoint.host != HERE
    print_lines(*([f"fab tunnel {endpoint.port}   # then: {url}"] if there else [url]))


@contextlib.contextmanager
def connected(endpoint: Deployed) -> Iterator[tuple[Session, str]]:
    """A session with the host of an endpoint with an agent, and the path of a Python there.

    Raises:
        UsageError: its machine does not run.
    """
    if endpoint.cluster is None:
        with local_session() as session:
            yield session, start_agent(session)
        return
    inventory = host_of(endpoint)
    with reach.agents(inventory) as (sessions, pythons):
        yield sessions.chief, pythons[endpoint.host]


def host_of(endpoint: Deployed) -> Inventory:
    """The host of an endpoint alone, at its current address."""
    assert endpoint.cluster
    status = power.cluster_status(local_state.load_cluster(endpoint.cluster))
    if endpoint.host in status.not_running:
        raise UsageError(
            f"endpoint {endpoint.name} does not serve: {endpoint.host} does not run",
            hint=f"fab undeploy {endpoint.name}   # removes its record; or: fab start",
        )
    return status.inventory.only([endpoint.host])


def predict(name: str, file: str | None, samples: int | None) -> prediction.Predictions:
    """Send a file or held-out samples through an endpoint.

    Raises:
        UsageError: there is no such endpoint, it does not serve, or the model refuses the input.
    """
    if (file is None) == (samples is None):
        raise UsageError("give --file or --samples", hint="fab predict --samples 10")
    endpoint = records.require(name)
    if file is not None:
        prediction.check_file(Path(file))
    with connected(endpoint) as (session, _):
        state = read_state(session, endpoint.folder)
        if state is None or state.state not in ALIVE:
            raise UsageError(
                status_line(session, endpoint),
                hint=f"fab undeploy {endpoint.name} && fab deploy --name {endpoint.name}",
            )
        environment = place_environment(session, _served_python(session, endpoint))
        if file is not None:
            return prediction.predict_file(session, endpoint, environment, Path(file))
        data = _data_of(endpoint)
        return prediction.predict_samples(session, endpoint, environment, samples or 1, data)


def _served_python(session: Session, endpoint: Deployed) -> str:
    """The runtime's Python that serves the endpoint."""
    argv = read_document(session, endpoint.folder).get("argv")
    if not isinstance(argv, list) or not argv or not isinstance(argv[0], str):
        raise UsageError(f"the endpoint.json of {endpoint.name} is damaged", hint="fab undeploy")
    return argv[0]


def _data_of(endpoint: Deployed) -> dict[str, str]:
    """The data of the endpoint's run, as its chief reads it: {name: path or URI}."""
    if endpoint.run_id is None:
        return {}
    document = _document(endpoint.run_id)
    return {
        item["name"]: item["paths"][0] if item["paths"] else item["uri"]
        for item in document.get("data", ())
    }


def undeploy(name: str) -> None:
    """End an endpoint and verify it; one whose machine does not run, or was destroyed, is only
    forgotten."""
    endpoint = records.require(name)
    if endpoint.cluster is not None:
        if endpoint.cluster not in local_state.clusters():
            records.forget(endpoint.name)
            print_lines(f"{endpoint.cluster} is gone: endpoint {endpoint.name} is forgotten")
            return
        status = power.cluster_status(local_state.load_cluster(endpoint.cluster))
        if endpoint.host in status.not_running:
            records.forget(endpoint.name)
            print_lines(f"{endpoint.host} does not run: endpoint {endpoint.name} is forgotten")
            return
    with connected(endpoint) as (session, python):
        print_lines(ending.undeploy(session, endpoint, python))


def open_notebook(
    inventory: Inventory, run_id: str | None, port: int, local_port: int | None, seconds: float
) -> None:
    """Start JupyterLab on the chief unless it runs there, and forward a local port to it until
    Ctrl-C; the notebook itself goes on until its time-to-live is over."""
    chief = inventory.chief
    source = _run_or_none(run_id, inventory)
    with reach.agents(inventory.only([chief.name])) as (sessions, pythons):
        session = sessions.chief
        place = _place(inventory, session, pythons[chief.name])
        endpoint = Deployed(notebook.NAME, inventory.name, chief.name, port, source.run_id)
        _refuse_elsewhere(endpoint)
        token = notebook.running(session)
        if token is None:
            _check_time_to_live(inventory, seconds)
            folder = source.run.folder if source.run else "~"
            wanted = notebook.Notebook(port, seconds, folder)
            python = _python(inventory, source)
            token = notebook.start(place, endpoint, wanted, python, print_lines)
        else:
            endpoint = records.require(notebook.NAME)
        print_lines(status_line(session, endpoint))
        _forward(session, endpoint.port, local_port, f"lab?token={token}")
    print_lines(
        f"the notebook goes on   # fab notebook opens it again, fab undeploy {notebook.NAME}"
    )


def _run_or_none(run_id: str | None, inventory: Inventory) -> Source:
    """The run, else the last one of these hosts, else none."""
    if run_id is None and not local_state.runs(inventory.name):
        return Source(None)
    return source_of(run_id, None, inventory)


def open_tunnel(inventory: Inventory, port: int, local_port: int | None) -> None:
    """Forward a local port to a port of the chief until Ctrl-C."""
    host = inventory.chief
    with reach.sessions(inventory.only([host.name])) as sessions:
        _forward(sessions.chief, port, local_port)
    print_lines("the tunnel has ended")


def _forward(session: Session, port: int, local_port: int | None, path: str = "") -> None:
    """Forward a local port until Ctrl-C; with a `path` its address is printed."""
    wanted = port if local_port is None else local_port
    with contextlib.suppress(KeyboardInterrupt), tunnel(session, port, wanted) as local:
        address = f"http://127.0.0.1:{local}/{path}" if path else f"127.0.0.1:{local}"
        print_lines(f"{address} leads to port {port} of {session.host.name}", "Ctrl-C ends it")
        while True:
            time.sleep(0.5)
            require_open(session)
