"""Terminates an endpoint, and verifies that nothing remains of it."""

from __future__ import annotations

from railhead.documents.agent.network import FindPort
from railhead.documents.agent.runs import EndRun
from railhead.documents.runs.swept import OF_ENDPOINTS
from railhead.documents.serving.endpoint import Deployed

from ..console.text import count
from ..console.wait import wait_until
from ..errors import RailheadError
from . import records
from .model import remove_unused_models
from .place import EndpointPlace
from .state import is_alive, read_state

END_SECONDS = 20.0  # seconds for the requests in progress


def undeploy(place: EndpointPlace, endpoint: Deployed) -> str:
    """Terminate an endpoint and remove its folder; returns what was verified, as text.

    Raises:
        RailheadError: one of its processes is left, or its port is still open.
    """
    session = place.session
    state = read_state(session, endpoint.folder)
    served = is_alive(session, endpoint.folder, state)
    if state and served:
        session.run(["kill", "-TERM", str(state.pid)])
        wait_until(
            lambda: not is_alive(session, endpoint.folder, read_state(session, endpoint.folder)),
            seconds=END_SECONDS,
            every=0.2,
        )
    swept = session.call(EndRun(endpoint.name, OF_ENDPOINTS))
    free = session.call(FindPort(endpoint.port, endpoint.port)).port
    if swept.left or (served and not free):
        remains = f"pids {[*swept.left]}" if swept.left else f"port {endpoint.port} is open"
        raise RailheadError(
            f"endpoint {endpoint.name} is still there: {remains}",
            hint=place.undeploy(endpoint.name),
        )
    session.remove(endpoint.folder)
    remove_unused_models(session)
    records.forget(endpoint)
    requests = f" after {count(state.requests, 'request')}" if state else ""
    before = f"ended{requests}" if served else "had already ended"
    return f"endpoint {endpoint.name} {before}; no process left, nothing listens"
