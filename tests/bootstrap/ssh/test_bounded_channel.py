"""A host that is silent, never ends or sends too much holds no operation longer than its bounds."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from standins import ctrl_c
from standins.waiting import wait_until

from bootstrap.errors import HostsFailed
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.ssh import bounded_channel, connect
from bootstrap.ssh import session as session_module
from bootstrap.ssh.bounded_channel import BoundedChannel
from bootstrap.ssh.connection import ConnectionLost, Unresponsive
from bootstrap.ssh.login import paramiko_connection
from bootstrap.ssh.login.paramiko_connection import ParamikoConnection
from bootstrap.ssh.session import Session
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.agent.files import TextFile
from railhead.documents.agent.packing import Get
from railhead.documents.agent.request import Bounds, Request
from railhead.documents.agent.runs import Follow

MOST = 20_000  # bytes of an operation of these tests
LONG = 30.0  # seconds; no test waits so long


class Far:
    """The host's end of a channel."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.over = threading.Event()

    def repeat(self, data: bytes, pause: float = 0) -> None:
        """Send the same again and again until the test is over."""

        def work() -> None:
            while not self.over.wait(pause):
                try:
                    self.end.sendall(data)
                except OSError:
                    return

        threading.Thread(target=work, daemon=True).start()


Limit = Callable[..., None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Gives all operations these bounds."""

    def work(silence: float = LONG, seconds: float = LONG) -> None:
        bounds = Bounds(silence, seconds, MOST)
        for operation in Request.__subclasses__():
            monkeypatch.setattr(operation, "bounds", bounds)
        for name in ("OPEN", "SHELL"):
            monkeypatch.setattr(session_module, name, bounds)

    work()
    return work


@pytest.fixture
def pair(limit: Limit) -> Iterator[tuple[Session, Far]]:
    """A session whose agent has been started, and the host's end."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)  # it takes the agent's archive
    session = Session.__new__(Session)
    session._use(Host("h1", "h1"), near, lambda: None)
    session._agent = True
    host = Far(far)
    yield session, host
    host.over.set()
    near.close()
    far.close()


OPERATIONS: dict[str, Callable[[Session, Path], Any]] = {
    "greeting": lambda session, _: session.greet(),
    "facts": lambda session, _: session.facts(),
    "sh": lambda session, _: session.sh("true"),
    "start of the agent": lambda session, _: restarted(session),
    "read": lambda session, _: session.read("f"),
    "run": lambda session, _: session.run(["true"]),
    "follow": lambda session, _: session.call(Follow("f")),
    "get": lambda session, folder: session.get("~", ["**"], folder / "got", limit=10),
}


def restarted(session: Session) -> None:
    session._agent = False
    session.start_agent("python3")


def seconds_until(error: type[Exception], work: Callable[[], Any], match: str = ".") -> float:
    begun = time.monotonic()
    with pytest.raises(error, match=match):
        work()
    return time.monotonic() - begun


# What the host sends every 0.03 s, the limit that it exceeds, and the message.
SLOW = {
    "silent": (b"", {"silence": 0.1}, "silent for 0 s"),
    "a byte now and then": (b" ", {"seconds": 0.3}, "completed its answer"),
}


@pytest.mark.parametrize(("data", "bounds", "message"), SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_host_that_exceeds_a_limit_of_time_ends_the_operation_and_the_channel(
    pair: tuple[Session, Far],
    limit: Limit,
    tmp_path: Path,
    operation: Callable[[Session, Path], Any],
    data: bytes,
    bounds: dict[str, float],
    message: str,
) -> None:
    limit(**bounds)
    session, far = pair
    far.repeat(data, pause=0.03)
    seconds = seconds_until(Unresponsive, lambda: operation(session, tmp_path), message)
    assert min(bounds.values()) <= seconds < LONG
    with pytest.raises(ConnectionLost):  # a late answer would be taken for that of the next one
        session.read("f")


FLOODS = {
    "lines of no agent": b"x\n" * 500,
    "one line": b"x" * 1000,
    "empty lines": b"\n" * 1000,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_answer_without_end_is_cut_off(
    pair: tuple[Session, Far],
    tmp_path: Path,
    operation: Callable[[Session, Path], Any],
    flood: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bootstrap.untrusted.unpack.FILES", 1)  # of the archive of `get`
    session, far = pair
    far.repeat(flood)
    with pytest.raises(Unresponsive, match="sent more than"):
        operation(session, tmp_path)
    assert session._channel.received < 100 * (MOST + bounded_channel.PIECE)


@pytest.mark.parametrize("event", ['{"line": "x"}', '{"grown": 1, "received": 1}'])
def test_events_of_a_command_without_end_are_cut_off(pair: tuple[Session, Far], event: str) -> None:
    session, far = pair
    far.repeat(b'{"event": %s}\n' % event.encode())
    with pytest.raises(Unresponsive, match="sent more than 20 kB"):
        session.run(["true"])


@pytest.mark.parametrize(
    "line",
    [
        '{"event": {"line": "x"}}',
        '{"event": {"chunk": 0}}',
        '{"ok": ' + "[" * 100_000,
        '{"ok": [' + "[]," * 2_000_000 + "1]}",
        '{"ok": [' + '"a",' * 1_000_001 + "1]}",
        '{"ok": 1}x',
    ],
    ids=["an event of another", "no bytes", "depth", "lists", "texts", "more than one"],
)
def test_a_line_that_no_agent_sends_is_refused(
    pair: tuple[Session, Far], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.setattr(Get, "bounds", Bounds(LONG, LONG))
    session, far = pair
    threading.Thread(target=far.end.sendall, args=(line.encode() + b"\n",), daemon=True).start()
    with pytest.raises(Hostile):
        session.get("~", ["**"], tmp_path / "got", limit=10)


def test_a_host_that_does_not_read_ends_the_sending(
    pair: tuple[Session, Far], limit: Limit
) -> None:
    limit(silence=0.1)
    session, _ = pair
    big = TextFile("~/f", "x" * 5_000_000)
    assert seconds_until(Unresponsive, lambda: session.write(big)) < LONG


def test_several_operations_have_one_limit_together(pair: tuple[Session, Far]) -> None:
    session, far = pair
    far.repeat(b'{"ok": {"text": null}}\n', pause=0.1)

    def several() -> None:
        with session.within(0.25):
            while True:
                session.read("f")

    assert 0.25 <= seconds_until(Unresponsive, several) < LONG
    assert session._channel._end == float("inf")


def test_the_end_of_the_channel_within_a_line_is_a_broken_connection(
    pair: tuple[Session, Far],
) -> None:
    session, far = pair
    far.end.sendall(b'{"ok": ')
    far.end.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionLost, match="broke"):
        session.read("f")


@pytest.mark.parametrize(
    "limit, lines", [(3, [b"abc", b"de\n", b"f\n"]), (9, [b"abcde\n", b"f\n"])]
)
def test_a_line_is_read_up_to_a_limit(limit: int, lines: list[bytes]) -> None:
    near, far = socket.socketpair()
    with near, far:
        channel = BoundedChannel(Host("h1", "h1"), near)
        far.sendall(b"abcde\nf\n")
        assert [channel.readline(limit) for _ in lines] == lines


@pytest.mark.parametrize("lines", ["", "@rc {0} x", "@rc {0} " + "9" * 5000])
def test_a_command_without_an_exit_code_is_hostile(pair: tuple[Session, Far], lines: str) -> None:
    session, far = pair
    far.end.sendall(f"{lines.format(session._mark)}\n@end {session._mark}\n".encode())
    with pytest.raises(Hostile):
        session.shell("true")


# Ctrl-C


def test_ctrl_c_names_the_host_that_is_waited_for(pair: tuple[Session, Far]) -> None:
    session, far = pair
    far.end.sendall(b'{"event": {"line": "x"}}\n')

    def pressed(event: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as end:
        session.run(["true"], on_event=pressed)
    assert end.value.args == ("h1",)


@pytest.mark.parametrize("text", ["", "x" * 2_000_000], ids=["receive", "send"])
def test_ctrl_c_just_before_a_wait_for_a_host_is_not_lost(
    pair: tuple[Session, Far], text: str
) -> None:
    session, _ = pair
    with pytest.raises(KeyboardInterrupt), ctrl_c.pressed_before_the_wait_in(bounded_channel):
        session.write(TextFile("f", text))


def test_ctrl_c_names_the_hosts_that_have_not_answered() -> None:
    answered, over = threading.Event(), threading.Event()

    def is_noted() -> bool:
        """Whether `a` has answered, and no thread is in the work on it any more."""
        frames = [*sys._current_frames().values()]
        while frames:
            frame = frames.pop()
            if frame.f_code.co_filename == connect.__file__ and frame.f_locals.get("name") == "a":
                return False
            frames += [frame.f_back] if frame.f_back else []
        return answered.is_set()

    def work(name: str) -> None:
        if name == "a":
            answered.set()
            return
        if name == "c":
            wait_until(is_noted)
            ctrl_c.press()
        over.wait(60)

    before = {*threading.enumerate()}
    with pytest.raises(KeyboardInterrupt) as end:
        connect._all(work, {name: name for name in "abc"})
    left = {*threading.enumerate()} - before
    over.set()
    assert left and all(thread.daemon for thread in left), "the process waits for them at its end"
    assert end.value.args == ("b", "c")


# The start of the channel


class SilentServer(paramiko.ServerInterface):
    """An sshd that lets everybody in, opens a channel, and never answers a request to execute."""

    def __init__(self) -> None:
        self.requested, self.over = threading.Event(), threading.Event()

    def check_auth_none(self, username: str) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.requested.set()
        self.over.wait(LONG)
        return True


def test_a_request_to_execute_that_is_never_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paramiko_connection, "OPEN_SECONDS", 0.5)
    near, far = socket.socketpair()
    server, there, here = SilentServer(), paramiko.Transport(far), paramiko.Transport(near)
    with ExitStack() as ending:
        ending.callback(there.close)
        ending.callback(here.close)
        ending.callback(server.over.set)
        there.add_server_key(paramiko.ECDSAKey.generate())
        there.start_server(server=server, event=threading.Event())
        here.start_client(timeout=LONG)
        here.auth_none("somebody")
        client: Any = SimpleNamespace(get_transport=lambda: here)
        connection = ParamikoConnection(Host("h1", "h1"), [client], here.close)
        work = ThreadPoolExecutor(1)
        ending.callback(work.shutdown, wait=False)
        begun = time.monotonic()
        opened = work.submit(Session, Host("h1", "h1"), connection)
        error = opened.exception(timeout=60)  # paramiko alone would wait for ever
        assert server.requested.is_set()
        assert 0.5 <= time.monotonic() - begun < 10
        assert isinstance(error, Unresponsive)


def test_a_host_that_is_reached_after_ctrl_c_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pressed, closed = threading.Event(), threading.Event()
    session = MagicMock(close=closed.set)

    def reached(*_: Any) -> Any:
        ctrl_c.press()
        pressed.wait(LONG)
        return session

    monkeypatch.setattr(connect, "_open", reached)
    with pytest.raises(KeyboardInterrupt):
        connect.open_sessions(Inventory("c", (Host("h1", "h1"),)))
    pressed.set()
    assert closed.wait(LONG) and not session.greet.called


# A host among others


def test_a_silent_host_is_one_outcome_and_the_others_continue(limit: Limit) -> None:
    limit(silence=0.1)
    ends = {name: socket.socketpair() for name in ("good", "silent")}
    sessions: dict[str, Session] = {}
    for name, (near, _) in ends.items():
        sessions[name] = Session.__new__(Session)
        sessions[name]._use(Host(name, name), near, lambda: None)
        sessions[name]._agent = True
    ends["good"][1].sendall(json.dumps({"ok": {"left": []}}).encode() + b"\n")
    done, failed = connect.attempts(sessions, lambda s: s.remove())
    assert done == {"good": ()} and [*failed] == ["silent"]
    with pytest.raises(HostsFailed) as error:
        connect.everywhere({"silent": sessions["silent"]}, lambda s: s.greet(), what="x")
    assert [*error.value.outcomes] == ["silent"]
    for near, far in ends.values():
        near.close()
        far.close()
