"""state.json of an endpoint: written on its host, checked here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bootstrap.console.text import clean, count, duration
from bootstrap.console.wait import wait_until
from bootstrap.remote.programs import ENDPOINT
from bootstrap.remote.serve.machine_use import ALIVE, FRESH
from bootstrap.serving.records import Deployed
from bootstrap.ssh.session import Session
from bootstrap.untrusted.decode import json_object
from bootstrap.untrusted.unpack import Hostile

STATES = (*ALIVE, "ended", "failed")
LARGEST = 1e15  # of its numbers


@dataclass(frozen=True)
class EndpointState:
    """What the supervisor of an endpoint last wrote. Times are seconds since 1970."""

    state: str
    pid: int
    heartbeat: float
    until: float
    restarts: int
    version: int
    requests: int
    reason: str
    machine: str
    failed: Mapping[str, str]  # versions that do not load: {version: why}

    @staticmethod
    def read(text: str) -> EndpointState:
        """Parse state.json.

        Raises:
            Hostile: it is not valid.
        """
        what = "a state.json of an endpoint that is not valid"
        found = json_object(text, what)
        numbers = {}
        for key in ("pid", "heartbeat", "until", "restarts", "version", "requests"):
            value = found.get(key, 0)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not abs(value) < LARGEST:  # nor NaN
                raise Hostile(f"{what}: {key}")
            numbers[key] = value
        texts = {key: found.get(key, "") for key in ("state", "reason", "machine")}
        failed = found.get("failed", {})
        if not isinstance(failed, dict) or not all(isinstance(x, str) for x in failed.values()):
            raise Hostile(f"{what}: failed")
        valid = all(isinstance(text, str) for text in texts.values())
        if not valid or texts["state"] not in STATES or not 1 < numbers["pid"] < 1 << 31:
            raise Hostile(what)
        return EndpointState(
            pid=int(numbers["pid"]), heartbeat=float(numbers["heartbeat"]),
            until=float(numbers["until"]), restarts=int(numbers["restarts"]),
            version=int(numbers["version"]), requests=int(numbers["requests"]), failed=failed,
            **texts,
        )  # fmt: skip

    def describe(self, alive: bool, now: float) -> str:
        """For people: the state, the version, the requests, and when it ends by the host's clock,
        which is `now`."""
        if self.state not in ALIVE:
            machine = f"; machine: {self.machine}" if self.machine else ""
            return clean(f"{self.state}: {self.reason}{machine}")
        if not alive:
            return "LOST: its supervisor died, or the host restarted"
        if now - self.heartbeat > FRESH:
            return (
                f"does not answer: no heartbeat for {duration(now - self.heartbeat)}; "
                "its supervisor is stopped or hangs, and will not end it in time"
            )
        left = duration(max(0.0, self.until - now))
        parts = [self.state, f"ends in {left}"]
        if self.version:
            parts.insert(1, f"version {self.version}, {count(self.requests, 'request')}")
        if self.restarts:
            parts.append(count(self.restarts, "restart"))
        return ", ".join(parts)


def read_state(session: Session, folder: str) -> EndpointState | None:
    """The state of the endpoint in a folder of a host; None if there is none."""
    path = f"{folder}/state.json"
    text = session.call("read", paths=[path])[path]
    return EndpointState.read(text) if text else None


def wait_for(
    session: Session, folder: str, settled: Callable[[EndpointState], bool], seconds: float
) -> EndpointState | None:
    """The state of an endpoint when it is `settled` or over; None after so many seconds."""

    def found() -> EndpointState | None:
        state = read_state(session, folder)
        return state if state and (state.state not in ALIVE or settled(state)) else None

    return wait_until(found, seconds=seconds, every=0.3)


def read_document(session: Session, folder: str) -> dict[str, Any]:
    """endpoint.json of the endpoint in a folder of a host.

    Raises:
        Hostile: it is missing or not valid.
    """
    path = f"{folder}/endpoint.json"
    return json_object(session.call("read", paths=[path])[path] or "", "a damaged endpoint.json")


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
        raise Hostile("a time that is no number")
    return float(tail[-1])


def status_line(session: Session, endpoint: Deployed) -> str:
    """One line on an endpoint, read on its host."""
    state = read_state(session, endpoint.folder)
    alive = is_alive(session, endpoint.folder, state)
    text = state.describe(alive, clock_of(session)) if state else "not there any more"
    return f"endpoint {endpoint.name} on {endpoint.place}, port {endpoint.port}: {text}"
