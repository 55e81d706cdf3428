"""Checks the JSON files that a run's chief writes: state.json, result.json and run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bootstrap.untrusted.decode import json_object
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
LARGEST = 10**11  # of any number: as seconds since 1970 it is the year 5138
LONGEST_KEEP = 10**6  # minutes


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
        document = json_object(text, what)
        _check(document, STATE, {"machines": (dict, NULL)}, what)
        if document["pid"] <= 1:
            raise Hostile(f"{what}: pid")
        machines = document.get("machines")
        return RunState(document["state"], document["pid"], document["heartbeat"], machines)


def read_result(text: str) -> dict[str, Any]:
    """Parse result.json; Hostile if a value that is used has another type."""
    what = "a result.json that is not valid"
    document = json_object(text, what)
    _check(document, RESULT, RESULT_OPTIONAL, what)
    document = {**DEFAULTS, **document}
    if document["culprit"] is not None:
        _check(document["culprit"], CULPRIT, CULPRIT_OPTIONAL, what)
        if not all(isinstance(line, str) for line in document["culprit"]["lines"]):
            raise Hostile(f"{what}: lines")
    if "ended" in document and not _is_time(document["ended"]):
        raise Hostile(f"{what}: ended")
    return document


def read_stop(text: str) -> dict[str, Any] | None:
    """`stop` of a run.json; Hostile if it is not valid."""
    what = "a run.json that is not valid"
    stop = json_object(text, what).get("stop")
    if stop is None:
        return None
    if not isinstance(stop, dict):
        raise Hostile(what)
    _check(stop, STOP, {}, what)
    if not 0 <= stop["keep_minutes"] <= LONGEST_KEEP:
        raise Hostile(f"{what}: keep_minutes")
    return stop


def _check(document: Mapping[str, Any], required: Kinds, optional: Kinds, what: str) -> None:
    for key, kinds in {**required, **optional}.items():
        if key not in document and key in optional:
            continue
        if key not in document or not _is(document[key], kinds):
            raise Hostile(f"{what}: {key}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return not isinstance(value, int | float) or abs(value) <= LARGEST


def _is_time(text: str) -> bool:
    """Whether a text is a time such as 2026-11-22T10:22:43Z."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        return False
