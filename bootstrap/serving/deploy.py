"""Starts an endpoint on a host or on this computer, or gives one a new version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from railhead.documents.agent.commands import Start
from railhead.documents.agent.files import TextFile
from railhead.documents.agent.network import FindPort
from railhead.documents.agent.runs import PlacePrograms
from railhead.documents.codec import encode
from railhead.documents.options.serving import TENSORFLOW_SERVING
from railhead.documents.serving.endpoint import Deployed, EndpointDocument, EndpointState

from ..console.output import Reporter, printable
from ..console.text import clean, duration
from ..errors import Command, Hint, RailheadError, UsageError
from ..host.base.programs import ENDPOINT, NAME
from ..ssh.local_session import HERE
from ..ssh.session import Session
from . import records, tensorflow_serving
from .environment import Server
from .place import EndpointPlace
from .request import DeployRequest
from .state import clock_of, is_alive, read_document, read_state, wait_for

LOADING = 300.0  # seconds until a model must serve
LINES = 12  # of the server's log that an error shows
TRIED = 100  # ports that an endpoint may get
# The highest number in a folder of versions: N of a version that serves, .N of one that failed.
HIGHEST = 'ls -A "$1" | tr -d . | grep -xE "[0-9]{1,9}" | sort -n | tail -n 1'


def check_deadline(place: EndpointPlace, seconds: float) -> None:
    """Refuse a time-to-live beyond the deadline of the machine.

    Raises:
        UsageError: the machine powers itself off before.
    """
    if place.deadline is None or place.deadline.at is None:
        return
    remaining = (place.deadline.at - datetime.now(timezone.utc)).total_seconds()
    if remaining < seconds:
        hours = seconds / 3600 + 0.5
        raise UsageError(
            f"the machine powers itself off in {duration(max(0.0, remaining))}, before the "
            f"time-to-live of {duration(seconds)} is over",
            hint=Hint(Command("extend", hours=f"{hours:.1f}"), "   # or a shorter --hours"),
        )


def refuse_elsewhere(endpoint: Deployed) -> None:
    """UsageError if an endpoint of this name is recorded at another place."""
    other = records.find(endpoint.name)
    if other and (other.cluster, other.host) != (endpoint.cluster, endpoint.host):
        raise UsageError(
            f"endpoint {other.name} is already on {other.place}",
            hint=Hint(
                Command("undeploy", other.name), f"   # or another name: --name {other.name}-2"
            ),
        )


def refuse_second(place: EndpointPlace, request: DeployRequest) -> bool:
    """Whether the endpoint exists, and therefore gets a new version.

    Raises:
        UsageError: one of this name serves without --update, or none serves with it. After `fab
            train --deploy` (`update` None), both are allowed.
    """
    folder = records.endpoint_folder(request.name)
    alive = is_alive(place.session, folder, read_state(place.session, folder))
    if alive and request.update is False:
        raise UsageError(
            f"endpoint {request.name} is already deployed",
            hint=Hint(
                Command("deploy", name=request.name, update=True),
                "   # a new version; or: ",
                place.undeploy(request.name),
            ),
        )
    if request.update and not alive:
        raise no_new_version(request.name)
    return alive


def no_new_version(name: str) -> UsageError:
    """The error for `--update` of an endpoint that does not serve."""
    return UsageError(
        f"endpoint {name} does not serve, so it cannot get a new version",
        hint=Command("deploy", name=name),
    )


def choose_port(place: EndpointPlace, requested: int | None, usual: int) -> int:
    """The requested port, or the first free one, counted from the usual one.

    Raises:
        UsageError: the requested port is in use, or none is free.
    """
    first, last = (requested, requested) if requested else (usual, usual + TRIED - 1)
    port = place.session.call(FindPort(first, last)).port
    if port is None:
        ports = f"port {first}" if first == last else f"each port from {first} to {last}"
        where = "this computer" if place.host == HERE else place.host
        raise UsageError(
            f"{ports} of {where} is in use",
            hint="the same command without --port takes the next free one"
            if requested
            else "the same command with --port",
        )
    return port


def deploy(
    place: EndpointPlace, request: DeployRequest, endpoint: Deployed, model: str, server: Server
) -> EndpointState:
    """Start an endpoint that serves the model in a folder of the host; returns its state when it
    answers.

    Raises:
        RailheadError: it does not serve; the message has the last lines of its log.
    """
    served = place.absolute(f"{endpoint.folder}/versions")
    argv = [*server.command, "--model", served, *request.server_options(endpoint.port)]
    document = document_of(place, endpoint, argv, request.seconds)
    lay_out(place, endpoint, replace(document, server=request.server, health=server.health))
    _link_version(place.session, endpoint.folder, model, 1)
    start_supervisor(place, endpoint)
    return _wait(place.session, endpoint, 1)


def document_of(
    place: EndpointPlace, endpoint: Deployed, argv: Sequence[str], seconds: float
) -> EndpointDocument:
    """endpoint.json of an endpoint with this server, which ends after this number of seconds."""
    return EndpointDocument(
        name=endpoint.name,
        run_id=endpoint.run_id,
        port=endpoint.port,
        stop=tuple(place.stop) if place.stop else None,
        argv=tuple(argv),
        until=clock_of(place.session) + seconds,
        env=place.keras_home(),
    )


def lay_out(place: EndpointPlace, endpoint: Deployed, document: EndpointDocument) -> None:
    """Record an endpoint and create its folder on the host, with `document` as endpoint.json."""
    folder = endpoint.folder
    files = [
        _file(folder, document),
        TextFile(f"{folder}/versions/.keep", ""),
        TextFile(f"{folder}/logs/.keep", ""),
    ]
    records.save(endpoint)
    place.session.remove(folder)
    place.session.write(*files)
    place.session.call(PlacePrograms(folder))


def start_supervisor(place: EndpointPlace, endpoint: Deployed) -> None:
    """Start the endpoint's supervisor, which continues without this connection."""
    folder = endpoint.folder
    place.session.call(
        Start(
            argv=(place.python, "-I", "-S", f"{folder}/{NAME}", ENDPOINT),
            cwd=folder,
            env={"RAILHEAD_ENDPOINT": endpoint.name, "RAILHEAD_HOME": "~"},
            log=f"{folder}/logs/endpoint.log",
        )
    )


def update(
    place: EndpointPlace, request: DeployRequest, endpoint: Deployed, model: str, report: Reporter
) -> EndpointState:
    """Give an endpoint a new version and a new time-to-live, and record its run; the old version
    serves until the new one is warm. The kind of server does not change.

    Raises:
        RailheadError: the new version does not serve; the old one continues to serve.
    """
    session, folder = place.session, endpoint.folder
    until = clock_of(session) + request.seconds
    document = replace(read_document(session, folder), until=until)
    if document.server == TENSORFLOW_SERVING:
        tensorflow_serving.require_saved_model(place, model)
    session.write(_file(folder, document))
    highest = session.run(["sh", "-c", HIGHEST, "highest", f"{folder}/versions"])
    numbers = [int(name) for name in highest.tail if name.isdecimal() and len(name) < 10]
    number = 1 + max(numbers, default=0)
    _link_version(session, folder, model, number)
    report(f"version {number} is loading; the one before serves meanwhile")
    state = _wait(session, endpoint, number)
    served = replace(document, run_id=endpoint.run_id)
    session.write(_file(folder, served))
    records.save(endpoint)
    return state


def _file(folder: str, document: EndpointDocument) -> TextFile:
    return TextFile(f"{folder}/endpoint.json", json.dumps(encode(document)), 0o600)


def _link_version(session: Session, folder: str, model: str, number: int) -> None:
    """Create a version, a link to a folder with the model, in one step; never inside an existing
    version."""
    link = session.run(["ln", "-sn", model, f"{folder}/versions/{number}"])
    if link.rc:
        raise RailheadError(f"version {number} could not be created: {'; '.join(link.tail)}")


def _wait(session: Session, endpoint: Deployed, number: int) -> EndpointState:
    """Wait for this version to be in service; returns the state."""
    state = wait_for(
        session,
        endpoint.folder,
        lambda state: state.version == number or str(number) in state.failed,
        LOADING,
    )
    if state and state.version == number and state.state == "ready":
        return state
    why = f"it does not answer within {LOADING:.0f} s"
    if state:
        why = state.failed.get(str(number)) or state.reason
    if number > 1:  # the previous version serves on; a restart does not try this one again
        session.remove(f"{endpoint.folder}/versions/{number}")
        # Keeps the number in use: the server may still load this one, and take it for the next
        # version.
        session.write(TextFile(f"{endpoint.folder}/versions/.{number}", ""))
    shown = printable(why) or "\n".join(_log_tail(session, endpoint))
    deploy = Command("deploy", name=endpoint.name)
    raise RailheadError(
        f"version {number} of endpoint {endpoint.name} does not serve: {shown}",
        hint=Hint(deploy.plus(update=True), "   # with another model")
        if number > 1
        else Hint(
            deploy, "   # with another --port or --model; or: ", Command("undeploy", endpoint.name)
        ),
    )


def _log_tail(session: Session, endpoint: Deployed) -> list[str]:
    reply = session.run(["tail", "-n", str(LINES), f"{endpoint.folder}/logs/server.log"])
    return [clean(line) for line in reply.tail] if reply.rc == 0 else []
