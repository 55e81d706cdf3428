"""The forms of what a host's agent sends: the result of each operation, and the events.

A form is a type, a tuple of types, `[form]` for a list, `{str: form}` for any keys, or `{"key":
form, ...}` for keys that must be there. Others are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "remove": {"left": [str]},
    "data_state": {"folders": {str: {"complete": bool, "there": int}}, "free": int},
    "paths_state": {str: str},
    "receive_data": {"wrong": [str]},
}
EVENTS: tuple[Any, ...] = (
    {"agent": int}, {"line": str}, {"grown": int}, {"need": list}, {"chunk": int},
    {"metrics": str, "offset": int}, {"log": str, "log_offset": int},
    {"state": TEXT, "last": {str: str}},
)  # fmt: skip


def check_result(op: str, result: Any, arguments: Mapping[str, Any]) -> None:
    """Hostile if this is not a result of the operation: every requested key, each of its type."""
    if not _has_form(result, RESULTS.get(op, object)) or not _is_complete(op, result, arguments):
        raise Hostile(f"a result of {op!r} that is not valid")


def checked_event(event: Any) -> Mapping[str, Any]:
    """The event; Hostile if it is none of the agent's."""
    if not any(_has_form(event, form) for form in EVENTS):
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


def _has_form(value: Any, form: Any) -> bool:
    if isinstance(form, list):
        return isinstance(value, list) and all(_has_form(item, form[0]) for item in value)
    if not isinstance(form, dict):
        return isinstance(value, form) and (form in (bool, object) or not isinstance(value, bool))
    if not isinstance(value, dict):
        return False
    if str in form:
        return all(_has_form(item, form[str]) for item in value.values())
    return all(key in value and _has_form(value[key], form[key]) for key in form)
