"""Numbers in the output of a program, found by the patterns of --metric.

Some patterns take years on some lines, and Python cannot interrupt a search. Therefore this program
runs as a separate process, which the kernel ends when one search has taken LIMIT seconds. The
supervisor never waits for it: it counts lines that do not fit into the pipe.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from railhead.documents.codec import decode, encode
from railhead.documents.lenient import finite
from railhead.documents.runs.run import Metric, metric_number

from ..base import children, programs

LIMIT = 1.0  # seconds of CPU time for one search
LINE = 1000  # characters of a line that are searched
STEP = re.compile(r"(?i)\b(?:global[ _])?step\b\W{1,3}(\d{1,12})\b")  # the step in a line
GRACE = 15.0  # seconds for the last lines after the run's end
Add = Callable[[dict[str, Any]], None]


class MetricLines:
    """The supervisor's side of the searching process; `add` gets its records."""

    def __init__(self, metrics: Sequence[Metric], add: Add) -> None:
        self.names = [metric.name for metric in metrics]
        self.add, self.lost = add, 0
        self.current = os.memfd_create("metric", 0)  # the number of the pattern in use
        os.truncate(self.current, 1)
        self.process = subprocess.Popen(
            programs.command(programs.METRIC_LINES, str(self.current)),
            env=children.unmarked(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=children.end_with_parent,
            pass_fds=[self.current],
        )
        assert self.process.stdin
        self.pipe = self.process.stdin.fileno()
        os.write(self.pipe, json.dumps(encode(metrics)).encode() + b"\n")
        os.set_blocking(self.pipe, False)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def feed(self, line: str, printed: float) -> None:
        """Search a line that was printed at this time; returns at once."""
        text = line[:LINE].replace("\n", " ").encode()[: 4 * LINE]
        try:
            os.write(self.pipe, b"%.6f %s\n" % (printed, text))
        except OSError:  # the process is too slow, or has ended
            self.lost += 1

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.add(json.loads(line))

    def close(self) -> str:
        """Search the last lines; returns an error, or ""."""
        assert self.process.stdin
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.reader.join(GRACE)
        stuck = self.reader.is_alive()
        if stuck:
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)  # its output ends a moment before the process does
        if stuck or self.process.returncode == -signal.SIGVTALRM:
            name = self.names[os.pread(self.current, 1, 0)[0]]
            return f"--metric {name} took more than {LIMIT:g} s on one line: no metric after it"
        if self.lost:
            return f"{self.lost} lines were not searched for --metric: too many at once"
        return ""


def find(metrics: Sequence[Metric], current: mmap.mmap) -> None:
    """Search each line of stdin; print a record for each match; null for what is not finite."""
    patterns = [(metric.name, re.compile(metric.pattern)) for metric in metrics]
    counts = dict.fromkeys((name for name, _ in patterns), 0)
    for raw in sys.stdin.buffer:
        at_time, _, line = raw.decode(errors="replace").rstrip("\n").partition(" ")
        step = STEP.search(line)
        for index, (name, pattern) in enumerate(patterns):
            current[0] = index
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
            match = pattern.search(line)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            value = metric_number(match) if match else None
            if value is not None:
                counts[name] += 1
                record = {"kind": "metric", "name": name, "value": finite(value)}
                record["number"] = counts[name]
                record |= {"step": int(step[1])} if step else {}
                record["time"] = float(at_time)
                print(json.dumps(record), flush=True)


def main(descriptor: str) -> None:
    """Search by the patterns in the first line; `descriptor`: of the memory that holds the number
    of the pattern in use."""
    metrics = [decode(Metric, item) for item in json.loads(sys.stdin.buffer.readline())]
    find(metrics, mmap.mmap(int(descriptor), 1))
