"""The steps of `fab deploy`, `predict` and `undeploy`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from railhead.documents.options.serving import TENSORFLOW_SERVING, DeployOptions
from railhead.documents.outputs import DeployOutput
from railhead.documents.serving.endpoint import ALIVE, Deployed

from ..console.output import note_output, print_lines, print_result
from ..console.text import duration
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..lifecycle import power
from ..lifecycle.power import ClusterStatus
from ..provision.local_environment import runtime_here
from ..serving import deploy as deploying
from ..serving import on_host, records, tensorflow_serving
from ..serving import predict as prediction
from ..serving import undeploy as undeploying
from ..serving.deploy import (
    check_deadline,
    choose_port,
    no_new_version,
    refuse_elsewhere,
    refuse_second,
    update,
)
from ..serving.environment import place_environment, python_on_host
from ..serving.model import pack_model, send_model
from ..serving.place import EndpointPlace, chief_place, place_here, places
from ..serving.request import PORT, DeployRequest, read_request
from ..serving.source import ModelSource, predict_hint, run_data, shown, source_of
from ..serving.state import clock_of, read_document, read_state, status_line
from ..ssh.local_session import HERE


def deploy(options: DeployOptions, run: str | None, target: Callable[[], ClusterStatus]) -> None:
    """Serve a model of a run, or a file, on this computer or on a host of `target`; by default the
    model of the last run on those hosts."""
    request = read_request(options)
    if options.trust_model and not options.here:
        raise UsageError("--trust-model is for --here: a host loads the model without it")
    if options.here:
        deploy_here(request, source_of(run, options.model, trusted=options.trust_model))
        return
    source = source_of(run, options.model) if run or options.model else None
    status = target()
    deploy_on_host(status, request, source or source_of(None, None, status.inventory))


def deploy_trained(name: str, run: str, target: Callable[[], ClusterStatus]) -> None:
    """Serve the model of a run that has just succeeded, as a new version if the endpoint serves
    already.

    Raises:
        RailheadError: the run succeeded, but its model cannot be served.
    """
    request = replace(read_request(DeployOptions(name=name)), update=None)
    try:
        deploy_on_host(target(), request, source_of(run, None))
    except UsageError as error:
        what = f"run {run} succeeded, but its model is not deployed: {error.message}"
        raise RailheadError(what, hint=error.next) from None


def check_free(name: str, inventory: Inventory) -> None:
    """UsageError before a run if its endpoint is on other hosts, where it cannot get a new
    version."""
    refuse_elsewhere(Deployed(name, inventory.name, inventory.chief.name, PORT, None))


def deploy_here(request: DeployRequest, source: ModelSource) -> None:
    """Serve a model on this computer.

    Raises:
        UsageError: there is no model, it is not trusted, or an endpoint with this name is running.
    """
    path = source.found_here(safe_first=request.server != TENSORFLOW_SERVING)
    if path is None:
        raise source.no_model_error(HERE)
    print_lines(f"model: {shown(path)}")
    source.confirm_trust(path)
    endpoint = Deployed(request.name, None, HERE, PORT, source.run_id)
    refuse_elsewhere(endpoint)
    with place_here() as place:
        exists = refuse_second(place, request)
        endpoint = _with_port(place, request, endpoint, exists)
        _require_server(place, request)
        folder = place.absolute(send_model(place.session, pack_model(path)))
        print_lines("getting the runtime ready (the first time takes minutes)")
        _start(place, request, endpoint, folder, str(runtime_here()), exists)


def deploy_on_host(status: ClusterStatus, request: DeployRequest, source: ModelSource) -> None:
    """Serve a model on the chief of these hosts; start their stopped machines.

    Raises:
        UsageError: there is no model or no runtime, an endpoint with this name is running, or the
            machine's deadline or the stack's budget is before the end of the time-to-live.
    """
    cluster, chief = status.inventory.name, status.inventory.chief.name
    endpoint = Deployed(request.name, cluster, chief, PORT, source.run_id)
    # Checks that need no machine come first.
    refuse_elsewhere(endpoint)
    if source.found_here() is None and source.run is None:
        raise source.no_model_error(HERE)
    if request.update and chief in status.not_running:
        raise no_new_version(request.name)
    power.check_time_to_live(status, request.seconds, print_lines)
    with power.chief_started(status, print_lines) as inventory, chief_place(inventory) as place:
        check_deadline(place, request.seconds)
        exists = refuse_second(place, request)
        endpoint = _with_port(place, request, endpoint, exists)
        _require_server(place, request)
        python = python_on_host(place, source.runtime)
        folder = source.place_model(place)
        records.record_cluster(power.at_addresses(status.inventory, inventory))
        _start(place, request, endpoint, folder, python, exists)


def _with_port(
    place: EndpointPlace, request: DeployRequest, endpoint: Deployed, exists: bool
) -> Deployed:
    """The endpoint with its port, which a new version does not change."""
    if exists:
        serving = on_host.read_endpoint(place.session, endpoint.name, endpoint.cluster)
        return replace(endpoint, port=serving.port)
    return replace(endpoint, port=choose_port(place, request.port, PORT))


def _require_server(place: EndpointPlace, request: DeployRequest) -> None:
    if request.server == TENSORFLOW_SERVING:
        tensorflow_serving.require_program(place)


def _start(
    place: EndpointPlace,
    request: DeployRequest,
    endpoint: Deployed,
    model: str,
    python: str,
    exists: bool,
) -> None:
    """Start the endpoint, or deploy a new version to an existing one; print where it serves."""
    if exists:
        state = update(place, request, endpoint, model, print_lines)
    else:
        if request.server == TENSORFLOW_SERVING:
            tensorflow_serving.require_saved_model(place, model)
            server = tensorflow_serving.server(place.absolute(python), endpoint)
        else:
            server = place_environment(place, python).server()
        print_lines(f"endpoint {endpoint.name}: loading the model on {endpoint.place}")
        state = deploying.deploy(place, request, endpoint, model, server)
    seconds = max(0.0, state.until - clock_of(place.session))
    remaining = duration(seconds)
    base = f"http://127.0.0.1:{endpoint.port}/v1/models/{endpoint.name}"
    note_output(
        DeployOutput(
            name=endpoint.name,
            version=state.version,
            cluster=endpoint.cluster,
            host=endpoint.host,
            port=endpoint.port,
            url=base,
            run_id=endpoint.run_id,
            seconds_left=seconds,
        )
    )
    print_result(
        f"endpoint {endpoint.name} serves version {state.version} on {endpoint.place}, "
        f"port {endpoint.port} of 127.0.0.1; it ends in {remaining}",
        f"next: {predict_hint(endpoint.name, endpoint.run_id)}",
    )
    url = f"{base}:predict"
    print_result(
        url
        if endpoint.host == HERE
        else f"{Command('tunnel', endpoint.port, **place.target)}   # then: {url}"
    )


@contextlib.contextmanager
def _found(name: str, inventory: Inventory | None) -> Iterator[tuple[Deployed, EndpointPlace]]:
    """An endpoint and its place: on one of these hosts or, for None, its recorded place.

    Raises:
        UsageError: there is none, or its machine does not run.
    """
    if inventory is None:
        endpoint = records.require(name)
        with _recorded_place(endpoint) as place:
            yield endpoint, place
    else:
        with places(inventory) as by_host:
            endpoint = on_host.find(by_host, name, inventory.name)
            yield endpoint, by_host[endpoint.host]


@contextlib.contextmanager
def serving_place(
    name: str, inventory: Inventory | None = None
) -> Iterator[tuple[Deployed, EndpointPlace]]:
    """An endpoint that serves, and its place, with open sessions: `inventory` as for `predict`.

    Raises:
        UsageError: there is none, it does not serve, or its machine does not run.
    """
    with _found(name, inventory) as (endpoint, place):
        state = read_state(place.session, endpoint.folder)
        if state is None or state.state not in ALIVE:
            raise UsageError(
                status_line(place.session, endpoint),
                hint=Hint(
                    place.undeploy(endpoint.name),
                    " && ",
                    Command("deploy", **place.target, name=endpoint.name),
                ),
            )
        yield endpoint, place


@contextlib.contextmanager
def _recorded_place(endpoint: Deployed) -> Iterator[EndpointPlace]:
    if endpoint.cluster is None:
        with place_here() as place:
            yield place
    else:
        with places(_host_of(endpoint)) as by_host:
            yield by_host[endpoint.host]


def _host_of(endpoint: Deployed) -> Inventory:
    """Only the host of an endpoint, at its current address."""
    assert endpoint.cluster
    status = power.cluster_status(local_state.load_cluster(endpoint.cluster))
    if endpoint.host in status.not_running:
        raise UsageError(
            f"endpoint {endpoint.name} does not serve: {endpoint.host} does not run",
            hint=Hint(
                Command("undeploy", endpoint.name),
                "   # removes its record; or: ",
                Command("start", **status.inventory.target),
            ),
        )
    return status.inventory.only([endpoint.host])


def predict(
    name: str, file: str | None, samples: int | None, inventory: Inventory | None = None
) -> prediction.Predictions:
    """Send a file or held-out samples through an endpoint.

    Args:
        inventory: the hosts among which the endpoint is; None: where it is recorded.

    Raises:
        UsageError: there is no such endpoint, it does not serve, or the model refuses the input.
    """
    if (file is None) == (samples is None):
        target = inventory.target if inventory and not records.find(name) else {}
        hint = Command("predict", name, **target, samples=10)
        raise UsageError("give --file or --samples", hint=hint)
    if file is not None:
        prediction.check_file(Path(file))
    with serving_place(name, inventory) as (endpoint, place):
        served = read_document(place.session, endpoint.folder)  # by the runtime's Python
        environment = place_environment(place, served.argv[0])
        if file is not None:
            return prediction.predict_file(place, endpoint, environment, Path(file))
        data = run_data(endpoint.run_id)
        return prediction.predict_samples(place, endpoint, environment, samples or 1, data)


def show_log(name: str, inventory: Inventory | None = None) -> None:
    """Print the log of an endpoint's server, its older part first: `inventory` as for `predict`.

    Raises:
        UsageError: there is no such endpoint, or it has no log yet.
    """
    with _found(name, inventory) as (endpoint, place):
        log = f"{endpoint.folder}/logs/server.log"
        parts = [place.session.read(path) for path in (f"{log}.1", log)]
        target = place.target
    text = "".join(part for part in parts if part)
    if not text:
        raise UsageError(f"endpoint {name} has no log yet", hint=Command("status", **target))
    print_lines(*text.splitlines())


def undeploy(name: str, inventory: Inventory | None = None) -> None:
    """Terminate an endpoint and verify that it has ended; if its recorded machine does not run or
    was destroyed, only delete its record.

    Args:
        inventory: the hosts among which the endpoint is; None: where it is recorded.
    """
    if inventory is None:
        recorded = records.require(name)
        if why := _gone(recorded):
            records.forget(recorded)
            print_lines(f"{why}: endpoint {name} is forgotten")
            return
    with _found(name, inventory) as (endpoint, place):
        print_lines(undeploying.undeploy(place, endpoint))


def _gone(endpoint: Deployed) -> str:
    """Why an endpoint has nothing to terminate; "" if it may be running."""
    if endpoint.cluster is None:
        return ""
    if endpoint.cluster not in local_state.clusters():
        return f"{endpoint.cluster} is gone"
    status = power.cluster_status(local_state.load_cluster(endpoint.cluster))
    return f"{endpoint.host} does not run" if endpoint.host in status.not_running else ""
