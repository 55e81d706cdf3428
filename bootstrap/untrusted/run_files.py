"""Checks the JSON files that a run's chief writes: state.json, result.json and run.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bootstrap.untrusted.unpack import Hostile

Kinds = Mapping[str, tuple[type, ...]]
NULL = type(None)
STATE: Kinds = {"state": (str,), "pid": (int,), "heartbeat": (int, float)}
RESULT: Kinds = {"state": (str,)}
RESULT_OPTIONAL: Kinds = {
    "exit_code": (int,), "culprit": (dict, NULL), "evaluation": (dict, NULL), "swept": (dict,),
    "seconds": (int, float), "size": (int, NULL), "why": (str, NULL), "trouble": (str, NULL),
    "ended": (str,),
}  # fmt: skip
DEFAULTS = {"exit_code": 1, "culprit": None, "evaluation": None, "seconds": 0.0, "size": 0}
CULPRIT: Kinds = {"rank": (int, NULL), "host": (str, NULL), "lines": (list,)}
CULPRIT_OPTIONAL: Kinds = {"exit": (int, NULL), "signal": (int,)}
STOP: Kinds = {"keep_minutes": (int,)}


@dataclass(frozen=True)
class RunState:
    """state.json: the state of the run, the supervisor's pid, the time of its last heartbeat in
    seconds since 1970, and what stop_machines.py does, if it runs."""

    state: str
    pid: int
    heartbeat: float
    machines: Mapping[str, Any] | None

    @staticmethod
    def read(text: str) -> RunState:
        """Parse state.json; Hostile if it is not valid."""
        what = "a state.json that is not valid"
        document = parsed(text, what)
        _check(document, STATE, {"machines": (dict, NULL)}, what)
        if document["pid"] <= 1:
            raise Hostile(f"{what}: pid")
        machines = document.get("machines")
        return RunState(document["state"], document["pid"], document["heartbeat"], machines)


def read_result(text: str) -> dict[str, Any]:
    """Parse result.json; Hostile if a value that is used has another type."""
    what = "a result.json that is not valid"
    document = parsed(text, what)
    _check(document, RESULT, RESULT_OPTIONAL, what)
    document = {**DEFAULTS, **document}
    if document["culprit"] is not None:
        _check(document["culprit"], CULPRIT, CULPRIT_OPTIONAL, what)
        if not all(isinstance(line, str) for line in document["culprit"]["lines"]):
            raise Hostile(f"{what}: lines")
    return document


def read_stop(text: str) -> dict[str, Any] | None:
    """`stop` of a run.json; Hostile if it is not valid."""
    what = "a run.json that is not valid"
    stop = parsed(text, what).get("stop")
    if stop is None:
        return None
    if not isinstance(stop, dict):
        raise Hostile(what)
    _check(stop, STOP, {}, what)
    return stop


def parsed(text: str, what: str) -> dict[str, Any]:
    """A JSON object; Hostile with `what` if the text is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Hostile(what) from None
    if not isinstance(document, dict):
        raise Hostile(what)
    return document


def _check(document: Mapping[str, Any], required: Kinds, optional: Kinds, what: str) -> None:
    for key, kinds in {**required, **optional}.items():
        if key not in document and key in optional:
            continue
        if key not in document or not _is(document[key], kinds):
            raise Hostile(f"{what}: {key}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
