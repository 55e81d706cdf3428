"""What a host's agent sends is taken only in the form that our own agent gives it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from bootstrap.host.agent.agent import MODULES, operation
from bootstrap.inventory.hosts import Host
from bootstrap.ssh.session import Session
from bootstrap.untrusted import decode
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.agent.commands import Run
from railhead.documents.agent.data import DataFolder, DataState, PathsState, ReceiveData
from railhead.documents.agent.files import PlaceFolder, Read, Remove, Replace, TextFile, Tree, Write
from railhead.documents.agent.network import Dial, Listen, Ports
from railhead.documents.agent.packing import Collect, Get, GetFile
from railhead.documents.agent.request import Request
from railhead.documents.agent.runs import DropTemporary, Follow

READ, RUN, FOLLOW, LISTEN = Read("/a"), Run(("true",)), Follow("f"), Listen("::1")
GET, GET_FILE, COLLECT = Get("~", ("*",), 9), GetFile("/a", 9), Collect("f", 9)
DIAL, PORTS = Dial((("a", 1), ("b", 2)), 5), Ports(2)
DATA, PATHS, RECEIVE = DataState(("a",)), PathsState(("/a",)), ReceiveData("f", ())
REMOVE, WRITE, REPLACE = Remove(()), Write(()), Replace(TextFile("/a", "x"), None)
TREE, FOLDER = Tree((), "b", "d"), PlaceFolder((), "b", "d")
SENT: dict[str, Any] = {"files": [["a", 1]], "left": [], "changed": ["b"]}
GOOD: list[tuple[Request[Any, Any], Any]] = [
    (READ, {"text": "x"}), (READ, {"text": None}), (RUN, {"rc": -9, "tail": ["x"]}), (GET, SENT),
    (GET_FILE, {"sha256": "0" * 64}), (FOLLOW, {"offset": 5, "lost": False}),
    (COLLECT, {**SENT, "skipped": [{"path": "c", "kind": "FIFO"}]}), (LISTEN, {"port": 5}),
    (DIAL, {"wrong": [None, "refused"]}), (PORTS, {"ports": [5, 6]}), (REMOVE, {"left": []}),
    (DATA, {"folders": {"a": {"complete": True, "there": 0}}, "free": 9}),
    (PATHS, {"paths": {"/a": "folder"}}), (RECEIVE, {"wrong": [], "path": "/a"}),
    (WRITE, {"changed": []}), (REPLACE, {"replaced": True}), (TREE, {"sent": 0, "changed": []}),
    (FOLDER, {"sent": 0, "changed": []}), (DropTemporary("r1"), None),
]  # fmt: skip
BAD: list[tuple[Request[Any, Any], Any]] = [
    (READ, {"text": {}}), (READ, {}), (READ, []), (RUN, {"rc": True, "tail": []}),
    (RUN, {"rc": 0, "tail": [5]}), (RUN, {"rc": 0}), (RUN, None), (GET, {**SENT, "files": {}}),
    (GET, {**SENT, "files": [["a"]]}), (GET, {**SENT, "changed": [[]]}),
    (GET_FILE, {"sha256": None}), (COLLECT, SENT), (FOLLOW, {"lost": 0}), (LISTEN, {"port": "5"}),
    (LISTEN, {"port": 70000}), (DIAL, {"wrong": [None]}), (PORTS, {"ports": [5]}),
    (DATA, {"folders": {}, "free": 9}), (PATHS, {"paths": {}}), (PATHS, {"paths": {"/a": "x"}}),
    (REPLACE, {"replaced": 1}),
    (DATA, {"folders": {"a": {"complete": True, "there": "0"}}, "free": 9}),
]  # fmt: skip
EVENTS: list[tuple[Request[Any, Any], Any]] = [
    (RUN, {"line": "x"}), (RUN, {"grown": 5, "received": 7}), (TREE, {"need": []}),
    (FOLDER, {"need": ["0"]}), (RECEIVE, {"need": [[0, 5]]}),
    (GET, {"chunk": 5}), (COLLECT, {"chunk": 5}), (FOLLOW, {"metrics": "{}", "offset": 3}),
    (FOLLOW, {"log": "x", "log_offset": 3}), (FOLLOW, {"state": None, "last": {}}),
    (FOLLOW, {"state": "{}", "last": {"0": "x"}}),
]  # fmt: skip
BAD_EVENTS: list[tuple[Request[Any, Any], Any]] = [
    (RUN, None), (RUN, []), (RUN, "x"), (RUN, {}), (RUN, {"line": 5}), (GET, {"chunk": "5"}),
    (GET, {"chunk": True}), (GET, {"chunk": 0}), (RECEIVE, {"need": [[0]]}),
    (RECEIVE, {"need": [[-1, 0]]}), (RECEIVE, {"need": ["00"]}), (TREE, {"need": 5}),
    (FOLLOW, {"metrics": "{}"}), (FOLLOW, {"log": "x"}),
    (FOLLOW, {"metrics": "{}", "offset": None}),
    (FOLLOW, {"state": None, "last": {"0": 5}}), (FOLLOW, {"state": 5, "last": {}}),
    # Without end they would hold an operation that has no events.
    (READ, {"line": "x"}), (WRITE, {"chunk": 5}), (REMOVE, {"state": None, "last": {}}),
]  # fmt: skip


@pytest.fixture
def pair() -> Iterator[tuple[Session, socket.socket]]:
    """A session whose agent has been started, and the host's end."""
    near, far = socket.socketpair()
    session = Session.__new__(Session)
    session._use(Host("h1", "h1"), near, lambda: None)
    session._agent = True
    with near, far:
        yield session, far


def sent(pair: tuple[Session, socket.socket], request: Request[Any, Any], *messages: Any) -> Any:
    """The reply and the events of a request to a host that answers so."""
    session, far = pair
    events: list[Any] = []
    far.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    return session.call(request, on_event=events.append), events


def test_the_agent_has_each_operation() -> None:
    ops = {name: operation(name) for name in MODULES}
    assert {kind for kind, _ in ops.values()} == {*Request.__subclasses__()}
    for name, (kind, work) in ops.items():
        assert kind.op == name
        if work.__name__ != "<lambda>":
            hints = get_type_hints(work)
            assert (hints["request"], hints["return"]) == (kind, kind.reply_kind)


@pytest.mark.parametrize("request_, reply", GOOD, ids=lambda value: str(value)[:30])
def test_a_reply_of_the_agent_is_taken(
    pair: tuple[Session, socket.socket], request_: Request[Any, Any], reply: Any
) -> None:
    answer, _ = sent(pair, request_, {"ok": reply})
    assert reply is answer is None or {**reply}.keys() >= vars(answer).keys()


def test_the_items_of_a_reply_are_documents(pair: tuple[Session, socket.socket]) -> None:
    answer, _ = sent(pair, DATA, {"ok": GOOD[11][1]})
    assert answer.folders == {"a": DataFolder(complete=True, there=0)}


@pytest.mark.parametrize("request_, reply", BAD, ids=lambda value: str(value)[:30])
def test_another_reply_is_refused(
    pair: tuple[Session, socket.socket], request_: Request[Any, Any], reply: Any
) -> None:
    with pytest.raises(Hostile, match=request_.op):
        sent(pair, request_, {"ok": reply})


@pytest.mark.parametrize("request_, event", EVENTS, ids=str)
def test_an_event_of_the_operation_is_taken(
    pair: tuple[Session, socket.socket], request_: Request[Any, Any], event: Any
) -> None:
    good = next(reply for request, reply in GOOD if request is request_)
    _, (received,) = sent(pair, request_, {"event": event}, {"ok": good})
    assert vars(received).keys() == event.keys()


@pytest.mark.parametrize("request_, event", BAD_EVENTS, ids=str)
def test_another_event_is_refused(
    pair: tuple[Session, socket.socket], request_: Request[Any, Any], event: Any
) -> None:
    with pytest.raises(Hostile):
        sent(pair, request_, {"event": event}, {"ok": {}})


@pytest.mark.parametrize("message", [{}, {"error": {}}, {"error": {"errno": 5, "text": "x"}}])
def test_another_message_is_refused(pair: tuple[Session, socket.socket], message: Any) -> None:
    with pytest.raises(Hostile):
        sent(pair, READ, message)


def test_a_record_of_too_many_values_is_none() -> None:
    """An event has it as a text, whose values do not count there."""
    lists = ",".join(["[]"] * (decode.MARKS // 2))
    assert decode.json_line('{"a": [[], NaN]}')["a"][0] == []
    assert decode.json_line(f'{{"a": [{lists}, [], []]}}') == {}
