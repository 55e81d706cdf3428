"""Follows a run to its end: shows records and lines of output, reconnects if necessary."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from railhead.documents.agent.commands import Run as RunCommand
from railhead.documents.agent.files import Read
from railhead.documents.agent.runs import Follow, LogLine, MetricLine, RunEvent
from railhead.documents.lazy import dataclass
from railhead.documents.runs.records import Record
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.takeover import is_lost_lease

from ..console import log
from ..console.live import Board, name_of_run
from ..console.progress import training_done
from ..console.text import clean, last_state, record_line
from ..inventory.hosts import Inventory
from ..ssh.connect import open_sessions
from ..ssh.session import ConnectionLost, Session
from ..untrusted.records import record
from ..untrusted.run_files import read_run_document
from . import takeover
from .metrics.cost import CostSoFar, carbon_so_far
from .run import Run, read_state

RETRY_PAUSES = (1, 2, 4, 8, 16)  # seconds before each attempt to reconnect
TAKEOVER_PAUSES = (10,) * 24  # in addition, while another host may take over the run
# A pid is appended, in one write, while an earlier one lives: simultaneous followers keep each
# other's. If none lives, the file is replaced: supervisors of 0.1.0 read only one pid.
ATTACH = """for pid in $(cat attached 2>/dev/null); do
  kill -0 "$pid" 2>/dev/null && { echo $PPID >>attached; exit; }
done
echo $PPID >attached"""


SIZES = 'for file in "$@"; do wc -c <"$file" 2>/dev/null || echo 0; done'
Watch = Callable[[Record], None]


@dataclass
class RunConnection:
    """A run, its hosts, and the open session with its chief; `reopen` replaces the session.
    `watch` receives each record of metrics.jsonl; an exception of it ends `follow`."""

    run: Run
    inventory: Inventory
    chief: Session
    watch: Watch | None = None

    def ensure_open(self) -> None:
        """Reconnect if the connection to the chief is closed."""
        if not self.chief.connection.is_connected:
            self.reopen()

    def reopen(self, is_open: bool = False) -> None:
        """Replace the session by a new one with an agent, on the host that leads the run now; keep
        the old one on failure. `is_open`: keep it also if its host still leads the run."""
        self.run = takeover.current(self.inventory, self.run)
        self.inventory = self.run.part_of(self.inventory)
        name = self.inventory.chief.name
        if is_open and self.chief.host.name == name:
            return
        sessions = open_sessions(self.inventory.only([name]))
        for session in sessions.values():
            if python := session.facts().python:
                session.start_agent(python)
                self.chief.close()
                self.chief = session
            else:
                session.close()


@dataclass
class FollowState:
    """How far `follow` has read metrics.jsonl and the log; it survives a broken connection."""

    offset: int = 0
    log_offset: int = 0
    lost: bool = False

    def skip_to_end(self, chief: Session, run: Run) -> None:
        """Skip the present contents of the files: they repeat those of an earlier chief."""
        files = ("results/metrics.jsonl", "logs/rank-0.log")
        with contextlib.suppress(ConnectionLost):
            reply = chief.run(["sh", "-c", SIZES, "sizes", *files], cwd=run.folder)
            sizes = [int(line) if line.strip().isdigit() else 0 for line in reply.tail]
            self.offset, self.log_offset = (*sizes, 0, 0)[:2]


def follow_to_end(connection: RunConnection, board: Board) -> None:
    """Follow a run to its end, also on a host that takes it over. Reconnect up to five times, or
    for minutes if there is a standby; then raise ConnectionLost. The run itself continues in any
    case."""
    state = FollowState()
    standby, shown = takeover.standby_of(connection.run), ""
    for pause in (*RETRY_PAUSES, *(TAKEOVER_PAUSES if standby else ())):
        try:
            follow(connection.chief, connection.run, board, state, connection.watch)
            if not (standby and _is_continued(connection, state)):
                return
            why, is_open = f"{connection.chief.host.name} does not lead the run any more", True
        except ConnectionLost as lost:
            why, is_open = f"{lost}; the run continues", False
        if not standby:
            board.print_lines(f"{why}, reconnecting in {pause} s")
        elif why != shown:
            board.print_lines(f"{why}; {standby} takes it over if its chief is lost, reconnecting")
        shown = why
        time.sleep(pause)
        before = connection.chief
        connection.reopen(is_open)
        if connection.chief is not before and connection.chief.host.name != before.host.name:
            board.print_lines(f"{connection.chief.host.name} leads the run now")
            state.skip_to_end(connection.chief, connection.run)
            standby = ""
    follow(connection.chief, connection.run, board, state, connection.watch)


def _is_continued(connection: RunConnection, state: FollowState) -> bool:
    """Whether a run that has ended on this host continues on its standby: its supervisor died, or
    has lost the lease."""
    ended = None if state.lost else read_state(connection.chief, connection.run)
    return state.lost or bool(ended and is_lost_lease(ended.cause))


def follow(
    chief: Session, run: Run, board: Board, state: FollowState, watch: Watch | None = None
) -> None:
    """Show the run until it ends; ConnectionLost when the connection breaks."""
    _, read = chief.call_all(attach_mark(run), Read(f"{run.folder}/run.json"))
    document = read_run_document(read.text or "")
    view = _View(board, document, state, watch)
    request = Follow(run.folder, state.offset, "rank-0", state.log_offset)
    try:
        state.lost = chief.call(request, on_event=view.show).lost
    finally:
        board.clear(view.lines)
    log.event(f"run {run.run_id}: {'lost' if state.lost else 'ended'}")


class _View:
    """Shows the events of a run: all lines of rank 0 above the board, the progress of the run in
    one line, and, for each host without progress, the last line of its first rank. `hosts`: {first
    rank: host}."""

    def __init__(
        self, board: Board, run: RunDocument, state: FollowState, watch: Watch | None
    ) -> None:
        self.board, self.hosts, self.state, self.watch = board, first_ranks(run), state, watch
        self.records = RunLine(board, CostSoFar(run))
        self.last_line = ""  # of rank 0 above the board
        # The hosts whose last line is not shown. (A log has all lines of rank 0 anyway.)
        first = {"0"} & {*self.hosts} if not board.live else ()
        self.with_progress = {self.hosts[rank] for rank in first}

    @property
    def lines(self) -> list[str]:
        """The names of its lines on the board."""
        hosts = [host for host in self.hosts.values() if host in self.board.names]
        return [self.records.name, *hosts]

    def show(self, event: RunEvent) -> None:
        """Show one event of the agent."""
        if isinstance(event, LogLine):
            self.state.log_offset = event.log_offset
            self.last_line = clean(last_state(event.log))
            self.board.print_lines(f"[{self.hosts.get('0')}] {self.last_line}".rstrip())
        elif isinstance(event, MetricLine):
            self.state.offset = event.offset
            self._show_record(event.metrics)
        else:
            self._show_last(event.last)

    def _show_record(self, line: str) -> None:
        if entry := record(line):
            self.records.show(entry)
            if entry.kind == "progress" and entry.host in {*self.board.names} - self.with_progress:
                self.with_progress.add(entry.host)
                self.board.clear([entry.host])
            if self.watch:
                self.watch(entry)

    def _show_last(self, lines: Mapping[str, str]) -> None:
        """Show, in each host's line, the last line of its first rank; of rank 0 only a line that is
        not above the board, such as an unfinished progress bar."""
        for rank, host in self.hosts.items():
            line = clean(lines.get(rank, ""))
            if line and host in self.board.names and host not in self.with_progress:
                is_above = rank == "0" and line.strip() == self.last_line.strip()
                self.board.line(host, "" if is_above else line)


def attach_mark(run: Run) -> RunCommand:
    """Write the pid of this connection's agent into the run's folder, beside that of a colleague
    who follows the run: while one lives, the supervisor waits for the results to be fetched."""
    return RunCommand(("sh", "-c", ATTACH), cwd=run.folder)


def first_ranks(run: RunDocument) -> dict[str, str]:
    """{rank: host name} for the first rank of each host."""
    names = [host.name for host in run.hosts]
    return dict(zip(map(str, run.first_ranks), names, strict=True))


class RunLine:
    """The line of a run on a board: the progress of the rank that reports first. Ranks train in
    step, so the others report the same."""

    def __init__(self, board: Board, cost: CostSoFar | None = None) -> None:
        self.board, self.name, self.cost = board, name_of_run(), cost
        self.rank: tuple[str, int | None] | None = None
        self.carbon = ""
        board.add([self.name])

    def show(self, entry: Record) -> None:
        """Show a record: progress in the line, other records above it. Messages of ranks other than
        0 go into their host's line, except in a log, which would lose some.

        Unknown records, and records of hosts that are not on the board, are ignored: the program
        can write to that file too.
        """
        if entry.kind == "carbon":
            self.carbon = carbon_so_far(entry)
        text, board = record_line(entry), self.board
        if not text or entry.name == "output":  # Keras's own line is shown in that case
            return
        if entry.kind not in ("progress", "message"):
            board.print_lines(text)
        elif entry.host not in board.names:
            return
        elif entry.kind == "progress":
            self.rank = self.rank or (entry.host, entry.rank)
            if self.rank == (entry.host, entry.rank):
                paid = self.cost.at(entry.time) if self.cost else ""
                board.line(self.name, f"{text}{paid}{self.carbon}", training_done(entry))
        elif entry.rank == 0 or not board.live:
            board.print_lines(f"[{entry.host}] {text}")
        else:
            board.line(entry.host, text)
