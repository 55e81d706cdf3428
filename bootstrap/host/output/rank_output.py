"""Turns the output of ranks and mpirun into logs, metrics and the data for result.json.

Secrets are redacted; a full disk loses lines but does not end the run.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railhead.documents.carbon.energy import MOST_MEASURED, HostEnergy, carbon_of
from railhead.documents.codec import decode
from railhead.documents.runs.evaluation import Reported
from railhead.documents.runs.run import RunDocument, Script
from railhead.documents.runs.stall import Stall

from . import kept_output
from .keras_lines import KerasLines
from .metric_lines import MetricLines
from .mpirun_output import MPIRUN, Heartbeats, MpirunFile, MpirunOutput
from .progress import STEP, STEP_RECORDS, Progress

LOOK = 0.1  # seconds between two reads of output
UNFINISHED = 0.5  # seconds between two looks at unfinished lines
CARBON = 45.0  # seconds, at least, between two carbon records
LATEST = 600.0  # seconds
RECORD = b"@railhead "
HEAD = 1000  # lines of mpirun that are kept: the first ones have the cause
LOG_LIMIT = 50_000_000  # bytes; then a rank's log is rotated, one older part is kept
WAITING = 1 << 20  # bytes of lines that wait while the disk is full; the last ones are kept
COPIED = 1 << 20  # bytes at once
TAIL, LONGEST_MESSAGE = 20, 60  # lines of a log, and of an exception's text
# Lines that Horovod and TensorFlow repeat while ranks wait for each other.
STALLED = re.compile(
    rb"[Ss]tall|subset of ranks|remainder of ranks|Missing ranks|^\d+: \[|Collective ops is aborted"
)
SHORTEST = 4  # characters; shorter lines of a multi-line secret (a bracket) are not redacted


class WriteErrors:
    """Counts failed writes by reason. The run continues; result.json reports them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, error: OSError) -> None:
        """Count one failed write."""
        self.counts[error.strerror or type(error).__name__] += 1

    def summary(self) -> str | None:
        """One line of text; None if every write succeeded."""
        lost = [f"{count} writes failed: {reason}" for reason, count in self.counts.items()]
        return "; ".join(lost) or None


class LogFile:
    """A log file of whole lines; over `limit` bytes it is rotated once. While the disk is full, the
    last lines wait."""

    def __init__(self, path: str, write_errors: WriteErrors, limit: float = float("inf")) -> None:
        self.path, self.write_errors, self.limit = path, write_errors, limit
        self.file: io.FileIO | None = None
        self.size = 0
        self.tail: deque[bytes] = deque(maxlen=LONGEST_MESSAGE)
        self.lock = threading.Lock()
        self.waiting: deque[bytes] = deque()  # lines that could not be written so far
        self.waiting_bytes = 0
        try:
            self._open()
        except OSError as error:
            write_errors.add(error)

    def add(self, line: bytes) -> None:
        """Add a line, given without its newline. A failed write is counted."""
        self.tail.append(line)
        with self.lock:
            self.waiting.append(line + b"\n")
            self.waiting_bytes += len(line) + 1
            self._write_waiting()

    def flush(self) -> None:
        """Write the waiting lines, if the disk has room now."""
        with self.lock:
            self._write_waiting()

    def close(self) -> None:
        """Close the file; another LogFile can continue it."""
        self.flush()
        if self.file is not None:
            self.file.close()

    def _write_waiting(self) -> None:
        try:
            self._restore()
            while self.waiting:
                self._write(self.waiting[0])
                self.waiting_bytes -= len(self.waiting.popleft())
        except OSError as error:
            self.write_errors.add(error)
            while self.waiting_bytes > WAITING:
                self.waiting_bytes -= len(self.waiting.popleft())

    def lines(self) -> list[str]:
        """The last lines, each as a terminal finally shows it. The exception of a traceback comes
        first if it is not among them."""
        lines = [shown(line) for line in self.tail]
        exception, last = exception_in(lines), lines[-TAIL:]
        return last if not exception or exception in last else [exception, "...", *last]

    def _write(self, data: bytes) -> None:
        """Write a whole line or nothing: a full disk leaves no partial line."""
        if self.file is None or self.size > self.limit:
            self._open()
        assert self.file
        written = self.file.write(data)
        if written != len(data):
            os.ftruncate(self.file.fileno(), self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def _restore(self) -> None:
        """Write the lines so far again if the program has removed the file, as with its folder."""
        if self.file is None or os.fstat(self.file.fileno()).st_nlink or os.path.exists(self.path):
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        part = f"{self.path}.part"
        with io.FileIO(part, "w") as copy:
            position = 0
            while data := os.pread(self.file.fileno(), COPIED, position):
                if copy.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                position += len(data)
        os.replace(part, self.path)
        self.file.close()
        self.file = io.FileIO(self.path, "a+")

    def _open(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None
            os.replace(self.path, f"{self.path}.1")
        self.file = io.FileIO(self.path, "a+")
        self.size = os.fstat(self.file.fileno()).st_size
        if self.size and os.pread(self.file.fileno(), 1, self.size - 1) != b"\n":
            self.size += self.file.write(b"\n")  # ends a line that a crash has cut


def exception_in(lines: Sequence[str]) -> str:
    """The line with the exception of the last traceback: the first line after it without
    indentation, with the next line if the text starts there; "" if there is none."""
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent")]
    after = [line for line in lines[starts[-1] + 1 :] if line.strip()] if starts else []
    first = next((i for i, line in enumerate(after) if not line[0].isspace()), len(after))
    name, text = [*after[first : first + 2], "", ""][:2]
    return f"{name} {text.strip()}" if name.endswith("Error:") and text else name


def shown(text: bytes) -> str:
    """A line as a terminal finally shows it: a progress bar moves back and rewrites it."""
    states = [state for state in re.split(rb"[\r\b]+", text) if state.strip()]
    return states[-1].decode(errors="replace").rstrip() if states else ""


class Secrets:
    """Redacts the values of secrets in text."""

    def __init__(self, values: Iterable[str]) -> None:
        pieces = sorted(set(pieces_of(values)), key=len, reverse=True)
        self.pattern = re.compile(b"|".join(re.escape(p.encode()) for p in pieces))
        self.any = bool(pieces)

    def redact(self, text: bytes) -> bytes:
        """The text with [secret] in place of each value."""
        return self.pattern.sub(b"[secret]", text) if self.any else text


def pieces_of(values: Iterable[str]) -> Iterable[str]:
    """The parts of secrets that may appear in one line: the value, or each of its lines, also as
    JSON."""
    for value in values:
        lines = [line.strip() for line in value.splitlines()]
        long_lines = [line for line in lines if len(line) >= SHORTEST] if len(lines) > 1 else lines
        for piece in (value.strip(), *long_lines):
            if piece:
                yield piece
                yield json.dumps(piece)[1:-1]
                yield json.dumps(piece, ensure_ascii=False)[1:-1]


class RunOutput:
    """Splits a run's output into logs and records. `broken` is the error of a reading thread."""

    def __init__(
        self,
        folder: str,
        run: RunDocument,
        secrets: Iterable[str],
        write_errors: WriteErrors,
        numbers: Mapping[str, int] | None = None,
        energy: dict[tuple[str, float], HostEnergy] | None = None,
    ) -> None:
        """`numbers`: how many values each --metric has from earlier attempts. `energy`: {(host,
        start of measurement): the last one}, of all attempts; it is updated."""
        self.folder, self.run, self.write_errors = folder, run, write_errors
        self.secrets = Secrets(secrets)
        self.metrics = LogFile(f"{folder}/results/metrics.jsonl", write_errors)
        self.logs = {rank: self.open_log(rank) for rank in (MPIRUN, *range(run.size))}
        self.source, self.splitter = MpirunFile(), MpirunOutput()  # mpirun's stdout
        kept_output.remove(folder)
        self.marks = kept_output.ReadMarks(folder, run.size)
        self.mpirun: list[str] = []
        self.failed: dict[int, int] = {}  # {rank: exit code}, in the order in which they failed
        self.finished: set[int] = set()  # ranks that have reported the exit code 0
        self.chief_ended: float | None = None  # when the chief rank ended with 0, monotonic
        self.chief_gone: float | None = None  # when its process was no longer there, monotonic
        self.evaluation: Reported | None = None
        self.last_metrics: dict[str, float | None] = {}  # the last value of each --metric
        self.stepped = False  # whether a step is known to be complete
        self.step: int | None = None  # the last step in a record
        self.first_step: float | None = None  # when the first step was seen, monotonic
        self.numbers = dict(numbers or {})
        self.energy = {} if energy is None else energy
        self.carbon_added = time.monotonic()
        # {rank: its unfinished line}: a progress bar, for example, ends its line when complete.
        self.unfinished: dict[str, str] = {}
        self.unfinished_noted = 0.0  # when, monotonic
        self.has_ended = False  # whether all of mpirun's output was read
        self.heartbeats = Heartbeats([host.slots for host in run.hosts])
        self.progress = Progress()
        self.ahead: dict[int, float] = {}  # {host: smallest delay by both clocks, in seconds}
        self.latest = LATEST  # seconds at most between a line and its arrival here
        self.line_time = 0.0  # when the current line was printed
        self.broken: BaseException | None = None
        self.metric_lines = MetricLines(run.metrics, self.add_metric) if run.metrics else None
        self.metric_rank = next(filter(self.is_chief, range(run.size)), 0)
        self.keras_lines = KerasLines() if isinstance(run.program, Script) else None

    def read(self, process: subprocess.Popen[bytes]) -> None:
        """Read the output of all ranks from mpirun's stdout until mpirun ends."""
        try:
            splitter = self.splitter
            while data := self.next_output(process):
                self.add_lines(splitter.feed(data))
                for rank, count in splitter.counts.items():
                    self.marks.note(rank, count - len(splitter.unfinished[rank]))
                self.heartbeats.received(splitter.active)
                self.heartbeats.ended(splitter.ended)
                self.progress.step(splitter.stepped)
                if splitter.stepped:
                    self.note_first_step()
                splitter.active.clear()
                splitter.stepped.clear()
                self.note_unfinished()
            self.add_lines(splitter.drain())
        except BaseException as error:  # the main thread raises it
            self.broken = error

    def add_lines(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Handle lines, as the splitter finds them."""
        for rank, line in lines:
            self.add_line(rank, self.secrets.redact(line), self.splitter.printed.get(rank))

    def read_kept(self) -> None:
        """Read, after the end of the ranks on this host, output that mpirun has not forwarded. It
        does not show who failed first: these ranks may have failed later than those in mpirun's
        output."""
        self.has_ended, splitter = True, self.splitter
        for rank in range(self.run.size):
            if not self.run.host_of(rank):
                known = splitter.counts.get(rank, 0), splitter.lasts.get(rank, b"")
                self.add_lines(splitter.of_rank(rank, kept_output.after(self.folder, rank, *known)))
        self.add_lines(splitter.close())

    def next_output(self, process: subprocess.Popen[bytes]) -> bytes:
        """The next output, b"" after the last. Only the time of waiting for output counts as
        silence of the hosts. During the wait, unfinished lines are noted."""
        while True:
            has_ended = process.returncode is not None  # before the last read
            if (data := self.source.read()) or has_ended:
                return data
            begun = time.monotonic()
            time.sleep(LOOK)
            self.heartbeats.waited(time.monotonic() - begun)
            self.note_unfinished()

    def read_mpirun(self, process: subprocess.Popen[bytes]) -> None:
        """Read mpirun's own messages from its stderr, which has no other output."""
        assert process.stderr
        for line in process.stderr:
            self.add_line(MPIRUN, self.secrets.redact(line.rstrip(b"\n")))

    def note_unfinished(self) -> None:
        """Note the unfinished lines, at most every UNFINISHED seconds; a changed one counts as
        progress, as a finished line does."""
        if time.monotonic() - self.unfinished_noted < UNFINISHED:
            return
        self.unfinished_noted = time.monotonic()
        texts = self.splitter.unfinished_lines()
        lines = {str(rank): shown(self.secrets.redact(text)) for rank, text in texts.items()}
        for rank, line in lines.items():
            if line and line != self.unfinished.get(rank):
                self.note_progress(int(rank), line.encode())
        self.unfinished = lines

    def time_of(self, rank: int, printed: float | None) -> float:
        """When a line was printed, by the clock of the chief, which has the checkpoints. The clock
        of another host is corrected by the smallest delay that any of its lines had."""
        now = time.time()
        if printed is None or not 0 <= rank < self.run.size:
            return now
        if host := self.run.host_of(rank):
            self.ahead[host] = min(self.ahead.get(host, now - printed), now - printed)
            printed += self.ahead[host]
        return min(max(printed, now - self.latest), now)

    def add_line(self, rank: int, line: bytes, printed: float | None = None) -> None:
        """Handle one line: a record, a line of a rank's log, or a message of mpirun. `printed`: its
        time, by the clock of the rank's host."""
        before, mark, record = line.partition(RECORD)
        rank = rank if rank in self.logs else MPIRUN
        self.line_time = self.time_of(rank, printed)
        alone = not before or before.endswith(b"\r")  # after a progress bar
        if mark and rank != MPIRUN and self.add_record(rank, record, alone=alone):
            line = before
            if not line:
                return
        if rank == MPIRUN and len(self.mpirun) < HEAD:
            self.mpirun.append(line.decode(errors="replace"))
        self.logs[rank].add(line)
        if not self.stepped and STEP.search(line):
            self.note_first_step()
            self.note_step(None)
        self.note_progress(rank, line)
        if rank == self.metric_rank:
            self.search(shown(line))

    def search(self, line: str) -> None:
        """Search a line for values of --metric and for epochs of Keras."""
        if self.metric_lines:
            self.metric_lines.feed(line, self.line_time)
        if epoch := self.keras_lines.feed(line) if self.keras_lines else None:
            self.record("epoch", self.line_time, {"name": "output", **epoch}, self.metric_rank)

    def record(self, kind: str, when: float, values: Mapping[str, Any], rank: int = 0) -> None:
        """Store a record of a rank at this time."""
        record = {"kind": kind, "rank": rank, "host": self.host_of(rank), "time": when}
        self.metrics.add(json.dumps({**record, **values}).encode())

    def note_first_step(self) -> None:
        """Note that a script has completed its first step: a record for the timeline."""
        if self.first_step is None and isinstance(self.run.program, Script):
            self.first_step = time.monotonic()
            self.record("first_step", time.time(), {})

    def note_step(self, step: Any) -> None:
        """Note that a step is complete; `step`: its number in a record, if there is one."""
        self.stepped = True
        self.first_step = self.first_step or time.monotonic()
        if isinstance(step, int):
            self.step = max(step, self.step or 0)

    def note_progress(self, rank: int, line: bytes) -> None:
        """Note what a line says about the progress of a rank."""
        if rank != MPIRUN and not STALLED.search(line):
            self.progress.line()
            self.progress.step([rank] if STEP.search(line) else [])

    def note_stall(self, kind: str, stall: Stall) -> None:
        """Add a record of a stall, or of a `long_step` that may become one."""
        record = {"kind": kind, "text": stall.text, "seconds": stall.seconds, "time": time.time()}
        self.metrics.add(json.dumps(record).encode())

    def end_attempt(self, text: str, since: float | None) -> None:
        """Add our last line to the log of each rank, and close all files. The next attempt repeats
        the records that are later than `since`."""
        if since is not None:
            self.record("start", time.time(), {"since": since})
        for rank in range(self.run.size):
            self.logs[rank].add(text.encode())
        self.close()

    def close(self) -> None:
        """Close all files."""
        for log in (self.metrics, *self.logs.values()):
            log.close()
        self.marks.close()
        self.source.close()

    def add_metric(self, record: dict[str, Any]) -> None:
        """Store a record that a pattern of --metric has found."""
        self.last_metrics[record["name"]] = record["value"]
        self.note_step(None)
        self.progress.step([self.metric_rank])
        record["number"] += self.numbers.get(record["name"], 0)
        self.record("metric", record["time"], record, self.metric_rank)

    def close_metrics(self) -> str:
        """Search the last lines, and write the waiting ones; returns an error, or ""."""
        trouble = self.metric_lines.close() if self.metric_lines else ""
        for log in (self.metrics, *self.logs.values()):
            log.flush()
        return trouble

    def add_record(self, rank: int, text: bytes, *, alone: bool) -> bool:
        """Store a record; False if the text is not a record. Only rank 0 evaluates, and only with a
        record at the start of a line (`alone`): text in the middle of a line may come from the
        data."""
        try:
            record = json.loads(text)
            kind = record["kind"]
            if kind == "ended":
                code = int(record["exit"])
                if not self.has_ended:
                    self.add_end(rank, code)
                return True
            if kind == "gone" and self.is_chief(rank):
                self.chief_gone = time.monotonic()
                return True
            if kind == "evaluation" and not (alone and rank == 0):
                return False
            reported = {k: v for k, v in record.items() if k != "kind"}
            record.update(rank=rank, host=self.host_of(rank), time=self.line_time)
            if kind == "energy":
                measured = decode(HostEnergy, record)
                name = measured.host, measured.since
                if name in self.energy or len(self.energy) < MOST_MEASURED:
                    self.energy[name] = measured
                    self.add_carbon(measured.host)
                return True
            line = json.dumps(record).encode()
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return False
        if kind in STEP_RECORDS:
            self.note_step(record.get("step"))
        if kind == "epoch":  # the script reports its epochs itself
            self.keras_lines = None
        self.progress.line()
        self.progress.step([rank] if kind in STEP_RECORDS else [])
        if kind == "evaluation":
            self.evaluation = Reported(reported)
        self.metrics.add(line)
        return True

    def add_carbon(self, host: str) -> None:
        """Store the energy that all hosts have used so far, whenever the first host has
        measured."""
        now = time.monotonic()
        if host != self.run.hosts[0].name or now - self.carbon_added < CARBON:
            return
        self.carbon_added = now
        if carbon := carbon_of(self.energy.values(), self.run.grid):
            values = {"kwh": carbon.kwh, "gco2e": carbon.grams(carbon.kwh)}
            self.record("carbon", self.line_time, values)

    def add_end(self, rank: int, code: int) -> None:
        """Note the exit code that a rank reported."""
        if code:
            self.failed.setdefault(rank, code)
            return
        self.finished.add(rank)
        if self.is_chief(rank):
            self.chief_ended = time.monotonic()

    def is_chief(self, rank: int) -> bool:
        """Whether a rank is the chief, which coordinates the others; they end when it has ended."""
        return self.run.role_of(rank) == "chief"

    def open_log(self, rank: int) -> LogFile:
        """The log file of a rank or of mpirun."""
        name = "mpirun" if rank == MPIRUN else f"rank-{rank}"
        return LogFile(f"{self.folder}/logs/{name}.log", self.write_errors, LOG_LIMIT)

    def host_of(self, rank: int) -> str:
        """The name of a rank's host."""
        return self.run.hosts[self.run.host_of(rank)].name
