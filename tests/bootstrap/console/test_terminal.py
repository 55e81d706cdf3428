"""What a person sees in a real terminal, which is tmux here: 80 and 120 columns wide."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.waiting import wait_until

REPO = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")

# A run that reports from two hosts, as `fab train` shows it. It waits for the files of the test.
SHOWN = """
import os, pathlib, time
from bootstrap.console.live import board_of
from bootstrap.console.output import print_lines
from bootstrap.console.progress import Transfer
from bootstrap.runs.follow import RunLine
from railhead.documents.runs.records import Record

def wait(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.02)

def report(run, step):
    for rank, host in enumerate(hosts):
        figures = {"loss": 0.25, "samples_per_s": 12345.0, "seconds_left": 4000.0}
        run.show(Record("progress", rank=rank, host=host, epoch=2.0, epochs=10.0, step=step,
                        steps=4000.0, figures=figures))

hosts = ("ip-10-0-0-17.internal", "ip-10-0-0-18.internal")
with board_of(hosts) as board:
    transfer = Transfer(322_000_000, started=time.monotonic() - 100)
    text, done = transfer.reach(161_000_000)
    for host in hosts:
        board.line(host, f"runtime: downloaded {text}; the disk has 480 MB more", done)
    wait("train")
    board.clear(hosts)
    run = RunLine(board)
    report(run, 1000.0)
    for number in range(40):
        print_lines(f"[{hosts[0]}] line {number} of the script")
    wait("narrow")
    report(run, 3000.0)
    wait("end")
    board.clear([run.name])
print_lines("fab train: run r1 failed", "  next: fab logs r1")
wait("never")
"""


class Terminal:
    """A window of tmux with a program in it."""

    def __init__(self, folder: Path, columns: int, **environment: str) -> None:
        self.folder, self._socket = folder, str(folder / "socket")
        script = folder / "shown.py"
        script.write_text(SHOWN)
        settings = {"PYTHONPATH": str(REPO), **environment}
        typed = shlex.join(
            ["env", *(f"{n}={v}" for n, v in settings.items()), sys.executable, str(script)]
        )
        self.tmux("new-session", "-d", "-x", str(columns), "-y", "24", "-c", str(folder), typed)

    def tmux(self, *arguments: str) -> str:
        """The output of a command of tmux; its server is that of this test alone."""
        variables = {n: v for n, v in os.environ.items() if not n.startswith(("TMUX", "CLICOLOR"))}
        variables.pop("NO_COLOR", None)
        argv = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, *options: str) -> list[str]:
        """The lines on the screen and above it, without empty ones: tmux adds some where a line was
        longer before a window became narrower."""
        text = self.tmux("capture-pane", "-p", "-S", "-200", *options)
        return [line.rstrip() for line in text.split("\n") if line.strip()] or [""]

    def shows(self, text: str, above: int = 0) -> list[str]:
        """The lines, when the last one contains a text, and so many are above it."""
        seen: list[str] = []

        def there() -> bool:
            seen[:] = self.lines()
            return text in seen[-1] and len(seen) > above

        wait_until(there)
        return seen

    def go(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if (tmp_path / "socket").exists():
        subprocess.run(["tmux", "-S", tmp_path / "socket", "kill-server"], timeout=60)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_what_happens_and_keeps_no_stale_line(folder: Path, columns: int) -> None:
    terminal = Terminal(folder, columns)
    shown = terminal.shows("ip-10-0-0-18.internal  [######......]  50 %  1 min")
    assert len(shown) == 2 and all("50 %  1 min 40 s left  runtime" in x for x in shown)
    assert any("\x1b[32m######" in line for line in terminal.lines("-e"))
    terminal.go("train")
    script = [f"[ip-10-0-0-17.internal] line {number} of the script" for number in range(40)]
    run = "run  [###.........]  25 %  1 h 6 min left  epoch  2/10"
    *above, last = terminal.shows(run, above=len(script))
    assert above == script, "one line of the run, and all lines of the script above it"
    assert ("12,345 samples/s" in last) == (columns == 120) and len(last) < columns
    terminal.tmux("resize-window", "-x", "60", "-y", "24")
    terminal.go("narrow")
    assert terminal.shows("75 %  1 h 6 min left")[:-1] == script, "the window became narrower"
    terminal.go("end")
    assert terminal.shows("next: fab logs r1")[:-2] == script
    assert "\x1b[1m  next: fab logs r1" in terminal.lines("-e")[-1]


def test_nothing_is_colored_where_the_user_wants_no_colours(folder: Path) -> None:
    terminal = Terminal(folder, 80, NO_COLOR="1")
    terminal.shows("50 %")
    terminal.go("train")
    terminal.go("narrow")
    terminal.go("end")
    terminal.shows("next: fab logs r1")
    assert not any("\x1b[3" in line or "\x1b[1" in line for line in terminal.lines("-e"))
