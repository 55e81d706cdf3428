"""Watches a run for a stall, on its chief: after a time without progress, asks all hosts and
decides."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from railhead.documents.lazy import replace
from railhead.documents.runs.result import Culprit
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.stall import Stall

from ..base import bounded, programs
from ..run import end_processes

if TYPE_CHECKING:
    from ..output.rank_output import RunOutput
    from .collect import Sample
    from .diagnosis import Diagnosis

PAUSE = 10.0  # seconds at most between the two stacks of a rank
SHARE = 6  # the pause takes at most the shortest limit divided by this
REPLY = 30.0  # seconds for the reply of a host, plus the pause
AT_ONCE = 32  # hosts that are examined at the same time
FILE = 2_000_000  # bytes that are read of a program's file
LOG = "logs/stacks.log"
MOST = 2_000_000  # bytes of all stacks in it
# A reported stall ends the run only after so many further limits: a false alarm costs only a
# message, a stalled run a few minutes more.
PATIENCE = 5


class StallWatch:
    """Watches a run for a stall. `look` is called often and never waits: a thread examines the
    hosts."""

    def __init__(self, run: RunDocument, folder: str, output: RunOutput) -> None:
        self.run, self.folder, self.output = run, folder, output
        self.progress = output.progress
        self.stall: Stall | None = None  # while it lasts
        self.confirm_at = 0.0  # seconds without progress, after which the stall ends the run
        self.confirmed = False
        self.next_look = 0.0  # seconds without progress
        self.noted = False  # whether this silence was already shown
        self.thread: threading.Thread | None = None
        self.is_over = False  # the attempt has ended: its records are complete

    @property
    def ends_run(self) -> bool:
        """Whether the run must be terminated."""
        return self.confirmed and self.run.on_stall != "wait"

    def look(self, now: float) -> None:
        """Start an examination if one is due at this time (monotonic)."""
        self.progress.look(now)
        if self.ends_run:
            return  # the ranks are being ended: their state no longer explains the stall
        silence, limit = self.progress.silence, self.progress.limit(self.run.stall_after)
        if silence < limit:
            self.next_look, self.stall, self.confirmed, self.noted = limit, None, False, False
        elif silence >= self.next_look and not (self.thread and self.thread.is_alive()):
            self.next_look = silence + limit
            self.thread = threading.Thread(target=self._examine, args=(silence, limit), daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread can be started now
                self.thread.start()

    def culprit(self, stall: Stall) -> Culprit:
        """The failure of a run that was terminated because of this stall."""
        if not stall.behind:
            return Culprit(None, None, (), stall=stall)
        rank = stall.behind[0]
        lines = tuple(self.output.logs[rank].lines())
        return Culprit(rank, self.output.host_of(rank), lines, stall=stall)

    def _examine(self, silence: float, limit: float) -> None:
        """Ask all hosts, and decide whether it is a stall."""
        from .diagnosis import diagnosed

        pause = min(PAUSE, self.run.stall_after / SHARE)
        replies = ask_hosts(self.run, self.folder, pause)
        if self.progress.silence < silence or self.output.failed or self.ends_run or self.is_over:
            return  # there was progress meanwhile, or the attempt fails or has ended
        samples = {s.rank: s for reply in replies.values() if not isinstance(reply, str)
                   for s in reply}  # fmt: skip
        diagnosis = diagnosed(
            self.run,
            samples,
            seconds=self.progress.silence,
            ended=set(range(self.run.size)) - self.output.heartbeats.going,
            unreachable={n: reply for n, reply in replies.items() if isinstance(reply, str)},
            source=self.source,
            warnings=[line for log in self.output.logs.values() for line in log.lines()],
        )
        self.decide(diagnosis, samples.values(), silence, limit)

    def decide(
        self, diagnosis: Diagnosis, samples: Iterable[Sample], silence: float, limit: float
    ) -> None:
        """Decide whether this is a stall after `silence` seconds without progress, and whether it
        ends the run, because it was reported long enough ago. Until it is a stall, what the ranks
        do is shown once."""
        with contextlib.suppress(OSError):
            self._write(diagnosis, samples)
        stall, needed = self.redacted(diagnosis.stall), diagnosis.factor * limit
        if silence < needed:
            # At the latest when it would count as a stall; earlier, because the ranks may show
            # more.
            self.next_look = min(silence + limit, max(needed, silence + self.run.stall_after / 2))
            self.stall = None
            if not self.noted:
                self.output.note_stall("long_step", stall)
        else:
            if self.stall is None:
                self.output.note_stall("stall", stall)
                self.confirm_at = silence + PATIENCE * limit
            self.stall, self.confirmed = stall, silence >= self.confirm_at
        self.noted = True

    def redacted(self, stall: Stall) -> Stall:
        """The stall without the values of secrets, which a line of the program may contain."""

        def text(value: str) -> str:
            return self.output.secrets.redact(value.encode()).decode(errors="replace")

        places = tuple(
            replace(p, text=p.text and text(p.text), detail=text(p.detail)) for p in stall.places
        )
        return replace(stall, text=text(stall.text), places=places)

    def _write(self, diagnosis: Diagnosis, samples: Iterable[Sample]) -> None:
        """Write the stacks of all ranks to a log of the run."""
        parts = [f"{diagnosis.stall.text}\n{diagnosis.why}"]
        for sample in sorted(samples, key=lambda sample: sample.rank):
            host = self.run.hosts[self.run.host_of(sample.rank)].name
            head = f"rank {sample.rank} on {host}: process {sample.pid}, state {sample.state}"
            head += f", waits in {sample.wait}" if sample.wait else ""
            head += f", child: {sample.child}" if sample.child else ""
            parts.append(f"{head}\n{sample.stacks[1] or sample.stacks[0] or '(no stack)'}")
        data = self.output.secrets.redact("\n\n".join(parts).encode())[:MOST]
        path = os.path.join(self.folder, LOG)
        with open(f"{path}.part", "wb") as file:
            file.write(data + b"\n")
        os.replace(f"{path}.part", path)

    def source(self, file: str, line: int) -> str:
        """The text of a line of the program, from its copy on the chief; "" if there is none."""
        work = os.path.realpath(os.path.join(self.folder, "work"))
        path = os.path.realpath(os.path.join(work, file))
        if not path.startswith(os.path.join(work, "")):
            return ""
        with contextlib.suppress(OSError, IndexError):
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with open(number, errors="replace") as opened:
                if stat.S_ISREG(os.fstat(number).st_mode):
                    return opened.read(FILE).splitlines()[line - 1].strip()
        return ""


def ask_hosts(run: RunDocument, folder: str, pause: float) -> dict[str, list[Sample] | str]:
    """{name of a host that has ranks: its samples, or, as a text, why it did not answer}."""
    replies: dict[str, list[Sample] | str] = {}
    free = threading.Semaphore(AT_ONCE)

    def ask(index: int) -> None:
        with free:
            replies[run.hosts[index].name] = ask_host(run, folder, index, pause)

    # Not a pool: Python waits for its threads at the end of the process.
    threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in run.present]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def ask_host(run: RunDocument, folder: str, index: int, pause: float) -> list[Sample] | str:
    """The samples of the ranks of one host; or why it did not answer."""
    from .collect import Sample

    words = (programs.STACKS, run.run_id, f"{pause:g}")
    argv = end_processes.command_on_host(run, folder, index, *words)
    ended = bounded.run(argv, REPLY + pause)
    if ended.code is None:
        return ended.why
    try:
        samples: tuple[Sample, ...] = end_processes.document_of(tuple[Sample, ...], ended.out)
    except ValueError:
        return ended.why or "its answer is not a list of samples"
    ranks = run.ranks_of(index)
    return [sample for sample in samples if sample.rank in ranks]
