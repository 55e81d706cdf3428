from __future__ import annotations

import io
import re
import sys
import threading
import time

import pyte
import pytest

from bootstrap.console.live import (
    PAINTS_PER_SECOND,
    Board,
    board_of,
    common_board,
    name_of_run,
    prefixed,
)
from bootstrap.console.output import print_lines
from bootstrap.console.threads import side_by_side
from bootstrap.console.wait import wait_until


class Terminal(io.StringIO):
    """A stream that is a terminal: pyte shows what a person would see."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(columns, rows, history=1000, ratio=0.5)
        self.screen.set_mode(pyte.modes.LNM)  # the kernel turns \n into \r\n
        self._emulator = pyte.Stream(self.screen)
        self.writes: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes.append(text)
        self._emulator.feed(text)
        return len(text)

    def seen(self) -> list[str]:
        """The lines on the screen, without the empty ones at its end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def scrolled(self) -> list[str]:
        """The lines that scrolled out above the screen."""
        rows = self.screen.history.top
        return ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in rows]


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "10")
    return Terminal(40, 10)


def painted(terminal: Terminal, text: str) -> None:
    """Wait until the board has been painted with a text."""
    plain = re.compile(r"\x1b\[\d*m")
    assert wait_until(
        lambda: any(text in plain.sub("", x) for x in terminal.writes), seconds=60, every=0.01
    ), text


def test_a_host_has_one_line_that_is_painted_over(terminal: Terminal) -> None:
    with Board(terminal, ["h1", "host2"]) as board:
        for step in range(50):
            board.line("h1", f"step {step}")
            board.line("host2", "a longer text than the last one")
        painted(terminal, "a longer text")
        board.line("host2", "short")
    assert terminal.seen() == ["h1     step 49", "host2  short"]


def test_a_board_with_less_room_leaves_nothing_of_the_old_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Board(terminal, ["h1", "h2", "h3"]) as board:
        for name in ("h1", "h2", "h3"):
            board.line(name, "there")
        painted(terminal, "h3  there")
        monkeypatch.setenv("LINES", "4")
    assert terminal.seen() == ["h1  there", "... and 2 more hosts"]


def test_what_is_reported_stays_above_the_board_and_scrolls(terminal: Terminal) -> None:
    with Board(terminal, ["h1", "h2"]) as board:
        for number in range(30):
            board.line("h1", f"step {number}")
            board.print_lines(f"line {number}")
    assert terminal.scrolled() + terminal.seen() == [
        *(f"line {number}" for number in range(30)),
        "h1  step 29",
    ]


def test_a_long_thing_reported_wraps_and_leaves_nothing_of_the_old_board(
    terminal: Terminal,
) -> None:
    with Board(terminal, ["h1"]) as board:
        board.line("h1", "y" * 30)
        painted(terminal, "y" * 30)
        board.print_lines("x" * 45)
        board.line("h1", "z")
    assert terminal.seen() == ["x" * 40, "x" * 5, "h1  z"]


@pytest.mark.parametrize("text", ["x" * 300, "精度" * 60, "\x1b[2J\x1b[H\n\n\r" + "x" * 300])
def test_a_line_never_wraps(terminal: Terminal, text: str) -> None:
    with Board(terminal, ["h1", "h2"]) as board:
        board.line("h1", text)
        board.line("h2", "here")
    assert len(terminal.seen()) == 2
    assert terminal.seen()[0].endswith("...")
    assert terminal.seen()[1] == "h2  here"


def test_more_hosts_than_rows_are_counted_and_the_board_stays_in_place(terminal: Terminal) -> None:
    names = [f"h{number}" for number in range(64)]
    with Board(terminal, names) as board:
        for step in range(3):
            for name in names:
                board.line(name, f"step {step}")
            painted(terminal, f"step {step}")
    assert terminal.scrolled() == []
    assert terminal.seen()[6:] == ["h6   step 2", "... and 57 more hosts"]


def test_the_board_is_painted_at_most_ten_times_a_second(terminal: Terminal) -> None:
    began = time.monotonic()
    with Board(terminal, ["h1"]) as board:
        while time.monotonic() - began < 0.5:
            board.line("h1", str(time.monotonic()))
            board.print_lines("a script that prints a lot")
            time.sleep(0.002)
    seconds = time.monotonic() - began
    assert 1 <= len(terminal.writes) <= seconds * PAINTS_PER_SECOND + 3


def test_a_change_is_seen_though_no_other_follows_it(terminal: Terminal) -> None:
    with Board(terminal, ["h1"]) as board:
        board.line("h1", "first")
        board.line("h1", "waiting")
        painted(terminal, "waiting")
        assert terminal.seen() == ["h1  waiting"]


def test_the_cursor_ends_below_the_board_and_visible_after_an_error(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), Board(terminal, ["h1", "h2"]) as board:
        board.line("h1", "step 1")
        board.line("h2", "step 2")
        raise KeyboardInterrupt
    assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (0, 2)
    assert not terminal.screen.cursor.hidden
    assert not any(thread.name == "board" for thread in threading.enumerate())


def test_many_threads_leave_one_whole_line_each(terminal: Terminal) -> None:
    names = [f"h{number}" for number in range(6)]
    with Board(terminal, names) as board:
        threads = [threading.Thread(target=_work, args=(board, name)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert terminal.seen()[-6:] == [f"{name}  step 199" for name in names]
    assert sum("line" in line for line in terminal.scrolled() + terminal.seen()) == 6 * 20


def _work(board: Board, name: str) -> None:
    for step in range(200):
        board.line(name, f"step {step}")
        if step % 10 == 0:
            board.print_lines(f"{name} line {step}")


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_dumb_terminal_gets_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, term: str | None
) -> None:
    monkeypatch.delenv("TERM")
    if term is not None:
        monkeypatch.setenv("TERM", term)
    with Board(terminal, ["h1"]) as board:
        board.line("h1", "step 1")
    assert not board.live
    assert "\x1b" not in "".join(terminal.writes)
    assert terminal.seen() == ["[h1] step 1"]


def test_a_log_gets_a_line_per_host_every_two_seconds_and_the_last_one() -> None:
    log, clock = io.StringIO(), Clock()
    with Board(log, ["h1", "h2"], clock=clock) as board:
        for step in range(50):
            clock.now = 100 + step / 10
            board.line("h1", f"step {step}")
        board.line("h2", "ready")
    assert log.getvalue().splitlines() == [
        "[h1] step 0",
        "[h1] step 20",
        "[h1] step 40",
        "[h2] ready",
        "[h1] step 49",
    ]


def test_a_log_gets_every_change_of_state_at_once_and_nothing_twice() -> None:
    log, clock = io.StringIO(), Clock()
    with Board(log, ["h1"], clock=clock) as board:
        board.line("h1", "connecting", state="connecting")
        board.line("h1", "step 1", state="training")
        board.line("h1", "step 2", state="training")
        board.line("h1", "done", state="done")
        clock.now += 60
        board.line("h1", "done", state="done")
    assert log.getvalue() == "[h1] connecting\n[h1] step 1\n[h1] done\n"


def test_what_is_reported_is_in_the_log_line_by_line_and_clean() -> None:
    log = io.StringIO()
    with Board(log, ["h1"]) as board:
        board.print_lines("two\nlines\x1b[2J")
        board.print_lines("")
    assert log.getvalue() == "two\nlines\n\n"


def test_lines_of_a_log_have_colours_where_they_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    log = io.StringIO()
    with Board(log, ["h1"]) as board:
        board.line("h1", "ready")
        board.print_lines("[h2] key\n[h3] key")
    assert log.getvalue().splitlines() == [
        "\x1b[2m[h1]\x1b[0m ready",
        "\x1b[2m[h2]\x1b[0m key",
        "\x1b[2m[h3]\x1b[0m key",
    ]


def test_a_character_that_a_stream_cannot_show_is_replaced() -> None:
    raw = io.BytesIO()
    log = io.TextIOWrapper(raw, encoding="ascii")
    with Board(log, ["h1"]) as board:
        board.line("h1", "größer")
    assert raw.getvalue() == b"[h1] gr??er\n"


def test_a_closed_stream_does_not_end_the_run() -> None:
    log = io.StringIO()
    with Board(log, ["h1"]) as board:
        log.close()
        board.line("h1", "step 1")
        board.print_lines("still here")


def test_a_name_that_is_not_on_the_board_is_refused() -> None:
    with Board(io.StringIO(), ["h1"]) as board, pytest.raises(KeyError):
        board.line("h2", "step 1")


def test_several_runs_share_one_board(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)

    def run(host: str) -> None:
        with prefixed(f"trial {host[-1]}: "):
            print_lines("begins")
            with board_of((host, name_of_run())) as board:
                board.line(host, "loads")
                board.line(name_of_run(), "epoch 1")
                painted(terminal, f"trial {host[-1]}  epoch 1")
                painted(terminal, f"h{host[-1]}       trial {host[-1]}: loads")

    with common_board(("h1", "h2")):
        side_by_side(run, ("h1", "h2"))()
        print_lines("all have ended")
    *above, last = terminal.seen()
    assert sorted(above) == ["trial 1: begins", "trial 2: begins"] and last == "all have ended"
