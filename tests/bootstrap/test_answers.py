"""What a host's agent sends is taken only in the form that our own agent gives it."""

from __future__ import annotations

from typing import Any

import pytest

from bootstrap.untrusted import decode
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
EVENTS: list[tuple[str, Any]] = [
    ("agent", {"agent": 1, "python": "3.11"}), ("run", {"line": "x"}), ("run", {"grown": 5}),
    ("tree", {"need": []}), ("place_folder", {"need": []}), ("receive_data", {"need": []}),
    ("get", {"chunk": 5}), ("collect", {"chunk": 5}), ("follow", {"metrics": "{}", "offset": 3}),
    ("follow", {"log": "x", "log_offset": 3}), ("follow", {"state": None, "last": {}}),
    ("follow", {"state": "{}", "last": {"0": "x"}}),
]  # fmt: skip
BAD_EVENTS: list[tuple[str, Any]] = [
    ("run", None), ("run", []), ("run", "x"), ("run", {}), ("run", {"line": 5}),
    ("get", {"chunk": "5"}), ("get", {"chunk": True}), ("follow", {"metrics": "{}"}),
    ("follow", {"log": "x"}), ("follow", {"metrics": "{}", "offset": None}),
    ("follow", {"state": None, "last": {"0": 5}}), ("follow", {"state": 5, "last": {}}),
    # Without end they would hold an operation that has no events.
    ("read", {"line": "x"}), ("write", {"chunk": 5}), ("remove", {"state": None, "last": {}}),
]  # fmt: skip


@pytest.mark.parametrize("op, result, arguments", GOOD, ids=lambda value: str(value)[:30])
def test_a_result_of_the_agent_is_taken(op: str, result: Any, arguments: dict[str, Any]) -> None:
    check_result(op, result, arguments)


@pytest.mark.parametrize("op, result, arguments", BAD, ids=lambda value: str(value)[:30])
def test_another_result_is_refused(op: str, result: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(Hostile, match=op):
        check_result(op, result, arguments)


@pytest.mark.parametrize("op, event", EVENTS, ids=str)
def test_an_event_of_the_operation_is_taken(op: str, event: Any) -> None:
    assert checked_event(op, event) is event


@pytest.mark.parametrize("op, event", BAD_EVENTS, ids=str)
def test_another_event_is_refused(op: str, event: Any) -> None:
    with pytest.raises(Hostile, match="sent an event that is not valid:"):
        checked_event(op, event)


def test_a_record_of_too_many_values_is_none() -> None:
    """An event has it as a text, whose values do not count there."""
    lists = ",".join(["[]"] * (decode.MARKS // 2))
    assert decode.record('{"a": [[], NaN]}')["a"][0] == []
    assert decode.record(f'{{"a": [{lists}, [], []]}}') == {}
