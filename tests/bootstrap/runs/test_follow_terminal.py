"""The display of a run: on a terminal, which is a real one here, and in a log.

The supervisor and the agent are real; a shell replaces mpirun.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pyte
import pytest
from standins.runs import supervised_run
from standins.runs.supervised_run import END, says
from standins.waiting import wait_until

from bootstrap.console.live import Board
from bootstrap.runs.follow import FollowState, follow
from bootstrap.runs.run import Run
from bootstrap.ssh.local_session import local_session

COLUMNS, ROWS = 60, 12
BAR = "".join(rf"{percent}%%\r" for percent in range(0, 100, 10))


class Terminal:
    """A real terminal of 60 columns; what it gets is read at once, as by its window."""

    def __init__(self) -> None:
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1000, ratio=0.5)
        self.sent = b""
        self._lock = threading.Lock()  # the emulator writes what `lines` reads
        self.window, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.stream: TextIO = os.fdopen(side, "w")
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        emulator = pyte.ByteStream(self.screen)
        while True:
            try:
                data = os.read(self.window, 1 << 16)
            except OSError:  # EIO: the other side is closed
                return
            with self._lock:
                self.sent += data
                emulator.feed(data)

    def close(self) -> None:
        self.stream.close()
        self._reader.join(60)
        os.close(self.window)

    def lines(self) -> list[str]:
        """What is on the screen and what has scrolled out above it, without empty lines."""
        with self._lock:
            rows = self.screen.history.top
            above = ["".join(row[x].data for x in range(COLUMNS)) for row in rows]
            return [line.rstrip() for line in (*above, *self.screen.display) if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    yield terminal
    if not terminal.stream.closed:
        terminal.close()


def watch(home: Path, stream: TextIO) -> None:
    """Follow the run in this home to its end, as `fab attach` does."""
    with local_session() as chief, Board(stream, ["a", "b"]) as board:
        chief.start_agent("python3")
        follow(chief, Run("r1", home / "results"), board, FollowState())


@contextmanager
def followed(home: Path, script: str, stream: TextIO) -> Iterator[supervised_run.Run]:
    """A run of two hosts, `a` and `b`, with the output of this script; it is followed."""
    run = supervised_run.Run(home, script)
    supervisor = run.start()
    errors: list[BaseException] = []

    def keep_errors() -> None:
        try:
            watch(home, stream)
        except BaseException as error:
            errors.append(error)

    watcher = threading.Thread(target=keep_errors)
    watcher.start()
    yield run
    assert supervisor.wait(60) == 0
    watcher.join(60)
    assert not errors and not watcher.is_alive()


def test_a_progress_bar_is_painted_over_and_leaves_its_last_state(
    home: Path, terminal: Terminal
) -> None:
    bar = f"printf '[1,0]<stdout>:{BAR}90%% done'; until [ -e go ]; do sleep 0.05; done"
    script = "; ".join([says(0, "begins"), bar, rf"printf '\r100%%{END}'", says(0, "ends")])
    with followed(home, script, terminal.stream) as run:
        wait_until(lambda: {"[a] begins", "a  90% done"} <= {*terminal.lines()})
        (run.folder / "go").touch()
    terminal.close()
    assert terminal.lines() == ["[a] begins", "[a] 100%", "[a] ends"]


def test_the_lines_of_rank_0_are_above_those_of_the_hosts_and_in_a_log(
    home: Path, terminal: Terminal, tmp_path: Path
) -> None:
    """Without the escapes of the script, and of a progress bar the last state."""
    title = r"\033]0;owned\007a\033[2Jb\033[1A\302\233c"
    lines = [f"line {number}" for number in range(30)]
    message = '@railhead {"kind": "message", "text": "loading"}'
    output = [
        f"printf '[1,0]<stdout>:{title}{END}'",
        f"printf '[1,0]<stdout>:{BAR}100%%{END}'",
        *(says(rank, line) for line in [message, *lines] for rank in (0, 1)),
    ]
    run = supervised_run.Run(home, "; ".join(output))
    assert run.result()["state"] == "succeeded"
    watch(home, terminal.stream)
    terminal.close()
    first = [f"[a] {line}" for line in ("loading", "ab", "100%", *lines)]
    shown = terminal.lines()
    assert sorted(shown) == sorted(first)
    assert [line for line in shown if line != "[a] loading"] == first[1:]
    assert b"owned" not in terminal.sent and b"\x1b[2J" not in terminal.sent
    with (tmp_path / "log").open("w") as log:
        watch(home, log)
    logged = (tmp_path / "log").read_text().splitlines()
    assert [line for line in logged if line.startswith("[a]")] == shown
