"""What a person sees of a run: on a terminal, which is a real one here, and in a log.

The supervisor and the agent are real; a shell stands for mpirun.
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
from standins import supervised_run
from standins.supervised_run import END, says, wait_until

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
            self.sent += data
            emulator.feed(data)

    def close(self) -> None:
        self.stream.close()
        self._reader.join(60)
        os.close(self.window)

    def lines(self) -> list[str]:
        """What is on the screen and what has scrolled out above it, without empty lines."""
        above = ["".join(row[x].data for x in range(COLUMNS)) for row in self.screen.history.top]
        return [line.rstrip() for line in (*above, *self.screen.display) if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    yield terminal
    if not terminal.stream.closed:
        terminal.close()


@contextmanager
def followed(home: Path, script: str, stream: TextIO) -> Iterator[supervised_run.Run]:
    """A run of two hosts, `a` and `b`, of which this script is the output; it is followed."""
    run = supervised_run.Run(home, script)
    supervisor = run.start()
    errors: list[BaseException] = []

    def watch() -> None:
        try:
            with local_session() as chief, Board(stream, ["a", "b"]) as board:
                chief.start_agent("python3")
                follow(chief, Run("r1", home / "results"), board, FollowState())
        except BaseException as error:
            errors.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield run
    assert supervisor.wait(60) == 0
    watcher.join(60)
    assert not errors and not watcher.is_alive()


def test_the_lines_of_rank_0_stay_above_the_lines_of_the_hosts(
    home: Path, terminal: Terminal
) -> None:
    lines = [f"line {number}" for number in range(30)]
    message = '@railhead {"kind": "message", "text": "loading"}'
    script = "; ".join(says(rank, line) for line in [message, *lines] for rank in (0, 1))
    with followed(home, script, terminal.stream):
        pass
    terminal.close()
    assert terminal.lines() == [
        *(f"[a] {line}" for line in ["loading", *lines]),
        "a",
        "b  line 29",
    ]


def test_a_progress_bar_is_painted_over_and_leaves_its_last_state(
    home: Path, terminal: Terminal
) -> None:
    bar = f"printf '[1,0]<stdout>:{BAR}90%% done'; until [ -e go ]; do sleep 0.05; done"
    script = "; ".join([says(0, "begins"), bar, rf"printf '\r100%%{END}'", says(0, "ends")])
    with followed(home, script, terminal.stream) as run:
        wait_until(lambda: "a  90% done" in terminal.lines())
        assert "[a] begins" in terminal.lines()
        (run.folder / "go").touch()
    terminal.close()
    assert terminal.lines() == ["[a] begins", "[a] 100%", "[a] ends", "a", "b"]


def test_an_escape_in_a_scripts_line_does_not_reach_the_terminal(
    home: Path, terminal: Terminal
) -> None:
    title = r"\033]0;owned\007a\033[2Jb\033[1A\302\233c"
    with followed(home, f"printf '[1,0]<stdout>:{title}{END}'", terminal.stream):
        pass
    terminal.close()
    assert terminal.lines()[0] == "[a] ab"
    assert b"owned" not in terminal.sent and b"\x1b[2J" not in terminal.sent


def test_a_log_has_the_same_lines_of_rank_0(home: Path, tmp_path: Path) -> None:
    script = [says(0, "begins"), f"printf '[1,0]<stdout>:{BAR}100%%{END}'", says(1, "other")]
    with (tmp_path / "log").open("w") as log, followed(home, "; ".join(script), log):
        pass
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if line.startswith("[a]")] == ["[a] begins", "[a] 100%"]
