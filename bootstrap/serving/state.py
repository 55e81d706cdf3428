"""state.json of an endpoint: written on its host, checked here."""

from __future__ import annotations

import re
from collections.abc import Callable

from railhead.documents.serving.endpoint import ALIVE, Deployed, EndpointDocument, EndpointState

from ..console.text import clean, count, duration
from ..console.wait import wait_until
from ..host.base.programs import ENDPOINT
from ..host.run.machine_use import FRESH
from ..ssh.session import Session
from ..untrusted.decode import parsed
from ..untrusted.unpack import Hostile


def describe(state: EndpointState, alive: bool, now: float) -> str:
    """For people: the state, the version, the requests, and the time left by the host's clock.
    `now` is the time of that clock."""
    if state.state not in ALIVE:
        machine = f"; machine: {state.machine}" if state.machine else ""
        return clean(f"{state.state}: {state.reason}{machine}")
    if not alive:
        return "LOST: its supervisor died, or the host restarted"
    if now - state.heartbeat > FRESH:
        return (
            f"does not answer: no heartbeat for {duration(now - state.heartbeat)}; "
            "its supervisor is stopped or hangs, and will not end it in time"
        )
    remaining = duration(max(0.0, state.until - now))
    parts = [state.state, f"ends in {remaining}"]
    if state.version:
        parts.insert(1, f"version {state.version}, {count(state.requests, 'request')}")
    if state.restarts:
        parts.append(count(state.restarts, "restart"))
    return ", ".join(parts)


def read_state(session: Session, folder: str) -> EndpointState | None:
    """The state of the endpoint in a folder of a host; None if there is none."""
    text = session.read(f"{folder}/state.json")
    return parsed(EndpointState, text, "a state.json of an endpoint") if text else None


def wait_for(
    session: Session, folder: str, settled: Callable[[EndpointState], bool], seconds: float
) -> EndpointState | None:
    """Wait until an endpoint is `settled` or over; its state, or None when the time is over."""

    def settled_state() -> EndpointState | None:
        state = read_state(session, folder)
        return state if state and (state.state not in ALIVE or settled(state)) else None

    return wait_until(settled_state, seconds=seconds, every=0.3)


def read_document(session: Session, folder: str) -> EndpointDocument:
    """endpoint.json of the endpoint in a folder of a host. Hostile: it is missing or not valid."""
    name = f"an endpoint.json of {folder.rpartition('/')[2]}"
    document = parsed(EndpointDocument, session.read(f"{folder}/endpoint.json") or "", name)
    if not document.argv:
        raise Hostile(f"{name} that is not valid: argv")
    return document


def is_alive(session: Session, folder: str, state: EndpointState | None) -> bool:
    """Whether the supervisor that wrote the state still runs."""
    if state is None or state.state not in ALIVE:
        return False
    return session.is_running(state.pid, folder, ENDPOINT)


def clock_of(session: Session) -> float:
    """Seconds since 1970 by the host's clock, which ends the endpoint and may differ from ours.

    Raises:
        Hostile: the host sent no number.
    """
    tail = session.run(["date", "+%s"]).tail
    if not tail or not re.fullmatch(r"[0-9]{1,12}", tail[-1]):
        raise Hostile("a time that is not a number")
    return float(tail[-1])


def status_line(session: Session, endpoint: Deployed) -> str:
    """One line on an endpoint, read on its host."""
    state = read_state(session, endpoint.folder)
    alive = is_alive(session, endpoint.folder, state)
    text = describe(state, alive, clock_of(session)) if state else "no longer there"
    return f"endpoint {endpoint.name} on {endpoint.place}, port {endpoint.port}: {text}"
