"""`fab exec`: the lines of the hosts as they come, and how it ended on each.

The sessions are scripts of this file; a real one is in ssh/test_session.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest

from bootstrap.cli import shell
from bootstrap.console.output import Reporter, printing_with
from bootstrap.errors import HostsFailed
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach
from bootstrap.ssh.session import ConnectionLost

SECONDS = 20  # of a wait that a failure would make endless
Script = Callable[["Scripted", Reporter], int]
Execute = Callable[[Mapping[str, Script], Reporter], None]


class Scripted:
    """A session in which a command does what the test says."""

    def __init__(self, name: str, script: Script) -> None:
        self.host, self.script = Host(name, name), script
        self.closed = threading.Event()

    def shell(
        self, command: str, *, silence: float, report: Reporter = lambda line: None
    ) -> tuple[list[str], int]:
        lines: list[str] = []

        def each(line: str) -> None:
            lines.append(line)
            report(line)

        return lines, self.script(self, each)

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def execute(monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Run a command on hosts of which each has its script."""

    def on(scripts: Mapping[str, Script], printer: Reporter) -> None:
        sessions = {name: Scripted(name, script) for name, script in scripts.items()}

        @contextmanager
        def opened(inventory: Inventory) -> Iterator[Mapping[str, Scripted]]:
            yield sessions

        monkeypatch.setattr(reach, "sessions", opened)
        with printing_with(printer):
            shell.execute(cast("Inventory", None), "cmd")

    return on


def test_a_line_is_printed_while_its_command_and_those_of_others_still_run(
    execute: Execute,
) -> None:
    printed: list[str] = []
    seen = {"a": threading.Event(), "b": threading.Event()}

    def show(line: str) -> None:
        printed.append(line)
        seen[line[1]].set()

    def waits_for(other: str) -> Script:
        def script(_: Scripted, report: Reporter) -> int:
            report("first")
            report("last" if seen[other].wait(SECONDS) else "alone")
            return 0

        return script

    execute({"a": waits_for("b"), "b": waits_for("a")}, show)
    assert sorted(printed) == ["[a] first", "[a] last", "[b] first", "[b] last"]


def test_every_host_is_reported_also_where_another_is_lost(execute: Execute) -> None:
    def lost(_: Scripted, report: Reporter) -> int:
        report("half")
        raise ConnectionLost("the connection to b broke")

    def ends(code: int) -> Script:
        def script(_: Scripted, report: Reporter) -> int:
            report("whole")
            return code

        return script

    printed: list[str] = []
    with pytest.raises(HostsFailed, match="cmd failed") as failure:
        execute({"a": ends(3), "b": lost, "c": ends(0), "d": ends(4)}, printed.append)
    assert failure.value.outcomes == {
        "a": "exit 3",
        "b": "the connection to b broke",
        "c": "ok",
        "d": "exit 4",
    }
    assert sorted(printed) == ["[a] whole", "[b] half", "[c] whole", "[d] whole"]


def test_a_closed_reader_ends_the_commands_that_are_silent_too(execute: Execute) -> None:
    waited: list[bool] = []

    def silent(session: Scripted, report: Reporter) -> int:
        waited.append(session.closed.wait(SECONDS))
        raise ConnectionLost("closed")

    def gone(line: str) -> None:
        raise BrokenPipeError

    def talks(_: Scripted, report: Reporter) -> int:
        report("more")
        return 0

    with pytest.raises(BrokenPipeError):
        execute({"a": silent, "b": talks}, gone)
    assert waited == [True]
