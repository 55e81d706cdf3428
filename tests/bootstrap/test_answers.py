"""What a host's agent sends is taken only in the form that our own agent gives it."""

from __future__ import annotations

from typing import Any

import pytest

from bootstrap.untrusted.answers import check_result, checked_event
from bootstrap.untrusted.unpack import Hostile

SENT: dict[str, Any] = {"files": [["a", 1]], "left": [], "changed": ["b"]}
GOOD: list[tuple[str, Any, dict[str, Any]]] = [
    ("read", {"/a": "text", "/b": None}, {"paths": ["/a", "/b"]}),
    ("run", {"rc": -9, "tail": ["x"]}, {}),
    ("get", SENT, {}),
    ("get_file", {"sha256": "0" * 64}, {}),
    ("collect", {**SENT, "skipped": [{"path": "c", "kind": "FIFO"}]}, {}),
    ("follow", {"offset": 5, "lost": False}, {}),
    ("listen", {"port": 5}, {}),
    ("dial", {"wrong": [None, "refused"]}, {"peers": [1, 2]}),
    ("ports", {"ports": [5, 6]}, {"count": 2}),
    ("remove", {"left": []}, {}),
    ("data_state", {"folders": {"a": {"complete": True, "there": 0}}, "free": 9}, {"folders": "a"}),
    ("paths_state", {"/a": "folder"}, {"paths": ["/a"]}),
    ("receive_data", {"wrong": [], "path": "/a"}, {}),
    ("write", {"changed": []}, {}),
]
BAD: list[tuple[str, Any, dict[str, Any]]] = [
    ("read", {"/a": {}}, {"paths": ["/a"]}),
    ("read", {"/b": ""}, {"paths": ["/a"]}),
    ("read", [], {"paths": ["/a"]}),
    ("run", {"rc": True, "tail": []}, {}),
    ("run", {"rc": 0, "tail": [5]}, {}),
    ("run", {"rc": 0}, {}),
    ("run", None, {}),
    ("get", {**SENT, "files": {}}, {}),
    ("get", {**SENT, "changed": [[]]}, {}),
    ("get_file", {"sha256": None}, {}),
    ("collect", SENT, {}),
    ("follow", {"lost": 0}, {}),
    ("listen", {"port": "5"}, {}),
    ("dial", {"wrong": [None]}, {"peers": [1, 2]}),
    ("ports", {"ports": [5]}, {"count": 2}),
    ("data_state", {"folders": {}, "free": 9}, {"folders": "a"}),
    (
        "data_state",
        {"folders": {"a": {"complete": True, "there": "0"}}, "free": 9},
        {"folders": []},
    ),
    ("paths_state", {}, {"paths": ["/a"]}),
]
EVENTS: list[Any] = [
    {"agent": 1, "python": "3.11"}, {"line": "x"}, {"grown": 5}, {"need": []}, {"chunk": 5},
    {"metrics": "{}", "offset": 3}, {"log": "x", "log_offset": 3}, {"state": None, "last": {}},
    {"state": "{}", "last": {"0": "x"}},
]  # fmt: skip
BAD_EVENTS: list[Any] = [
    None, [], "x", {}, {"line": 5}, {"chunk": "5"}, {"chunk": True}, {"metrics": "{}"},
    {"log": "x"}, {"metrics": "{}", "offset": None}, {"state": None, "last": {"0": 5}},
    {"state": 5, "last": {}},
]  # fmt: skip


@pytest.mark.parametrize("op, result, arguments", GOOD, ids=lambda value: str(value)[:30])
def test_a_result_of_the_agent_is_taken(op: str, result: Any, arguments: dict[str, Any]) -> None:
    check_result(op, result, arguments)


@pytest.mark.parametrize("op, result, arguments", BAD, ids=lambda value: str(value)[:30])
def test_another_result_is_refused(op: str, result: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(Hostile, match=op):
        check_result(op, result, arguments)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_an_event_of_the_agent_is_taken(event: Any) -> None:
    assert checked_event(event) is event


@pytest.mark.parametrize("event", BAD_EVENTS, ids=str)
def test_another_event_is_refused(event: Any) -> None:
    with pytest.raises(Hostile, match="sent an event that is not valid:"):
        checked_event(event)
