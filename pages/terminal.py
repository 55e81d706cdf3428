"""The terminal of the README: a real run on two SSH hosts of this computer, one of whose ranks is
killed.

`make recording` types the commands and keeps some of the lines that they print; the picture is
drawn from these. A test fails if it is not what the code draws now.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.console.colours import BOLD, DIM, GREEN, RED

from .pictures import PICTURES

RECORDING = PICTURES / "terminal.txt"
PICTURE = PICTURES / "terminal.svg"
CLUSTER = "recording"
TRAIN = "train --preset digits --strategy multiworker --set checkpoint_steps=20"
KILLED_IN = re.compile(r"\bepoch +6/")  # the epoch after which rank 1 is killed
# The lines that are kept; `...` stands for the others.
SHOWN = re.compile(
    r"^\$ |\] ready in|started; it continues|^epoch +(?:1|6|7|20)/|^\[\S+\] railhead: "
    r"|^evaluation|^results: |^run \S+ succeeded|^report: |^Receipt|sshd stopped"
)
COLUMNS, LINE, LETTER, EDGE = 110, 18, 7.83, 16  # characters; pixels of a line, a letter, an edge
STYLES = {
    BOLD: "font-weight:bold",
    DIM: "fill:#8b949e",
    RED: "fill:#ff7b72",
    GREEN: "fill:#7ee787",
}
CODE = re.compile(r"\x1b\[(\d+)m")


def record() -> str:
    """Train on two new local hosts, kill rank 1 on the way, write a report; the lines to keep."""
    with tempfile.TemporaryDirectory() as home:
        # A home of their own, in which these hosts are those of the last command.
        os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        os.environ["HOME"] = home
        local_cluster.start(CLUSTER, 2)
        try:
            lines = [*_trained(home), "$ fab report", *_printed(home, "report")]
        finally:
            ended = [*_printed(home, "teardown")]
    return "\n".join(shortened([*lines, "$ fab teardown", *ended])).replace(home, "~") + "\n"


def _trained(folder: str) -> Iterator[str]:
    yield f"$ fab {TRAIN}"
    killed = False
    for line in _printed(folder, *TRAIN.split()):
        yield line
        if not killed and KILLED_IN.search(line):
            killed = True
            yield f"$ kill -9 {_kill_rank(1)}   # rank 1, from another terminal"


def _printed(folder: str, *words: str) -> Iterator[str]:
    """Each line that `fab` prints with these words, as it comes, with its colours."""
    fab = Path(sys.executable).with_name("fab")
    environment = {**os.environ, "CLICOLOR_FORCE": "1", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(
        [fab, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    yield from (line.rstrip("\n") for line in process.stdout)
    if process.wait():
        raise SystemExit(f"fab {' '.join(words)}: exit {process.returncode}")


def _kill_rank(rank: int) -> int:
    """SIGKILL to a rank of the cluster; its pid. Its helper for output works less than it."""
    words = (f"OMPI_COMM_WORLD_RANK={rank}\0".encode(), f"/{CLUSTER}/hosts/".encode())
    seconds = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes()
            if all(word in variables for word in words):
                seconds[int(entry.name)] = int((entry / "stat").read_text().split()[13])
    pid = max(seconds, key=seconds.__getitem__)
    os.kill(pid, signal.SIGKILL)
    return pid


def shortened(printed: Iterable[str]) -> list[str]:
    """The lines that are kept; `...` for each gap."""
    lines: list[str] = []
    for line in printed:
        if SHOWN.search(CODE.sub("", line)):
            lines.append(line)
        elif lines and lines[-1] != "...":
            lines.append("...")
    return lines


def drawn(text: str) -> str:
    """A recording as SVG."""
    lines = text.splitlines()
    width, height = COLUMNS * LETTER + 2 * EDGE, len(lines) * LINE + 2 * EDGE
    rows = [
        f'<text x="{EDGE}" y="{EDGE + LINE * (number + 0.75):g}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>',
            '<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13" fill="#e6edf3">',
            *rows,
            "</g>",
            "</svg>\n",
        ]
    )


def _spans(line: str) -> str:
    """A line with its colours as SVG, whose viewers join other spaces; a command is bold."""
    line = line.replace(" ", "\u00a0")
    if line.startswith("$\u00a0"):
        line = f"\x1b[{BOLD}m{line}\x1b[0m"
    style, parts = "", CODE.split(line)
    spans = [html.escape(parts[0])]
    for code, text in zip(parts[1::2], parts[2::2], strict=True):
        style = STYLES.get(code, "")
        spans.append(f'<tspan style="{style}">{html.escape(text)}</tspan>' if text else "")
    return "".join(spans)


if __name__ == "__main__":
    RECORDING.write_text(record())
    PICTURE.write_text(drawn(RECORDING.read_text()))
