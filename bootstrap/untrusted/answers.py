"""The forms (decode.py) of what a host's agent sends: results and events by operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bootstrap.untrusted.decode import has_form
from bootstrap.untrusted.unpack import Hostile

TEXT = (str, type(None))
SENT = {"files": [list], "left": [list], "changed": [str]}  # pairs of name and size
RESULTS: Mapping[str, Any] = {
    "read": {str: TEXT},
    "run": {"rc": int, "tail": [str]},
    "get": SENT,
    "get_file": {"sha256": str},
    "collect": {**SENT, "skipped": list},
    "follow": {"lost": bool},
    "listen": {"port": int},
    "dial": {"wrong": [TEXT]},
    "ports": {"ports": [int]},
    "free_port": {"port": (int, type(None))},
    "remove": {"left": [str]},
    "data_state": {"folders": {str: {"complete": bool, "there": int}}, "free": int},
    "paths_state": {str: str},
    "receive_data": {"wrong": [str]},
    "is_running": {"running": bool},
    "end_run": {"ended": int, "left": [int]},
}
EVENTS: Mapping[str, tuple[Any, ...]] = {
    "agent": ({"agent": int},),
    "run": ({"line": str}, {"grown": int}),
    **dict.fromkeys(("tree", "place_folder", "receive_data"), ({"need": list},)),
    **dict.fromkeys(("get", "get_file", "collect"), ({"chunk": int},)),
    "follow": (
        {"metrics": str, "offset": int},
        {"log": str, "log_offset": int},
        {"state": TEXT, "last": {str: str}},
    ),
}


def check_result(op: str, result: Any, arguments: Mapping[str, Any]) -> None:
    """Hostile if this is not a result of the operation: every requested key, each of its type."""
    if not has_form(result, RESULTS.get(op, object)) or not _is_complete(op, result, arguments):
        raise Hostile(f"a result of {op!r} that is not valid")


def checked_event(op: str, event: Any) -> Mapping[str, Any]:
    """The event; Hostile if it is none of this operation's."""
    if not any(has_form(event, form) for form in EVENTS.get(op, ())):
        raise Hostile("an event that is not valid")
    found: Mapping[str, Any] = event
    return found


def _is_complete(op: str, result: Any, arguments: Mapping[str, Any]) -> bool:
    if op in ("read", "paths_state"):
        return {*arguments["paths"]} <= {*result}
    if op == "data_state":
        return {*arguments["folders"]} <= {*result["folders"]}
    if op == "dial":
        return len(arguments["peers"]) == len(result["wrong"])
    return op != "ports" or len(result["ports"]) == arguments["count"]
