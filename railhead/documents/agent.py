"""The operations of a host's agent: each class is a request, with its reply, events and bounds.

One request is one JSON line, with the name of the operation as `op`; its reply and its events are
JSON lines too. The agent (bootstrap/remote/agent) carries them out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeVar, get_args

from railhead.documents.codec import key
from railhead.documents.manifest import Skipped
from railhead.documents.result import OF_RUNS, Swept

LONGEST_LINE = 64_000_000  # bytes of a line of the agent: all file names of a run, or a log
LAST_PORT = 65535


@dataclass(frozen=True)
class Bounds:
    """The limits of one operation: its longest silence and its total time, in seconds, and the
    bytes that the agent may send."""

    silence: float
    seconds: float
    bytes: float = 2 * LONGEST_LINE


QUICK = Bounds(60, 1800)  # no work on many files
WORK = Bounds(600, 12 * 3600)
COMMAND = Bounds(600, 12 * 3600, 4 * LONGEST_LINE)
LONG = Bounds(3600, 72 * 3600)  # compiles, installs, receives 100 GB

R = TypeVar("R")
E = TypeVar("E")


class Request(Generic[R, E]):
    """An operation with its arguments. `R`: its reply; `E`: its events, NoReturn if it has none."""

    op: ClassVar[str]
    bounds: ClassVar[Bounds]
    reply_kind: ClassVar[Any]
    event_kind: ClassVar[Any]

    def __init_subclass__(cls, op: str, bounds: Bounds = QUICK) -> None:
        super().__init_subclass__()
        cls.op, cls.bounds = op, bounds
        cls.reply_kind, cls.event_kind = get_args(vars(cls)["__orig_bases__"][0])

    def is_answered_by(self, reply: R) -> bool:
        """Whether the reply has an item for each thing that was requested."""
        return True


@dataclass(frozen=True)
class Hello:
    """The first event of an agent, before any request."""

    agent: int
    python: str


@dataclass(frozen=True)
class Failure:
    """Why an operation failed; `errno` is the name of a system error, or empty."""

    errno: str
    text: str


@dataclass(frozen=True)
class TextFile:
    """A file to be written."""

    path: str
    text: str
    mode: int = 0o644


@dataclass(frozen=True)
class Changed:
    """The paths of the files that were not as requested before."""

    changed: tuple[str, ...]


@dataclass(frozen=True)
class Write(Request[Changed, NoReturn], op="write"):
    """Write the files whose content or mode differs."""

    files: tuple[TextFile, ...]


@dataclass(frozen=True)
class Text:
    """A file's text; None if it does not exist."""

    text: str | None


@dataclass(frozen=True)
class Read(Request[Text, NoReturn], op="read"):
    """Read a small file."""

    path: str


@dataclass(frozen=True)
class Removed:
    """The paths that could not be removed."""

    left: tuple[str, ...]


@dataclass(frozen=True)
class Remove(Request[Removed, NoReturn], op="remove", bounds=WORK):
    """Remove files and folders; a path that does not exist is not an error."""

    paths: tuple[str, ...]


@dataclass(frozen=True)
class BundleFile:
    """One file: its posix path in the bundle, the hash of its content, its size in bytes."""

    path: str
    sha256: str
    size: int
    executable: bool


@dataclass(frozen=True)
class Needed:
    """The sha256 of each content that the host lacks; a length and a payload follow."""

    need: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """How many contents were sent, and the paths of the files that changed."""

    sent: int
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Tree(Request[Placed, Needed], op="tree", bounds=WORK):
    """Make the folder `dest` contain these files, and with `prune` no others; contents are kept in
    the folder `blobs`."""

    manifest: tuple[BundleFile, ...]
    blobs: str
    dest: str
    prune: bool = True


@dataclass(frozen=True)
class PlaceFolder(Request[Placed, Needed], op="place_folder", bounds=WORK):
    """Create the folder `dest`, named by a digest, with all files or not at all."""

    manifest: tuple[BundleFile, ...]
    blobs: str
    dest: str


@dataclass(frozen=True)
class Line:
    """The latest line of a command's output."""

    line: str


@dataclass(frozen=True)
class Grown:
    """The bytes by which disk use has grown, and those that came over the network meanwhile, also
    for other programs of the host."""

    grown: int = key(at_least=0)
    received: int = key(at_least=0)


@dataclass(frozen=True)
class CommandResult:
    """A command's exit code and its last lines of output."""

    rc: int
    tail: tuple[str, ...]


@dataclass(frozen=True)
class Run(Request[CommandResult, Line | Grown], op="run", bounds=COMMAND):
    """Run a command and wait for its end; `~` at the start of an argument is the host's home.

    Args:
        text: its standard input.
        timeout: seconds after which it is killed.
        fetches: also send what it has fetched (Grown); one such command at a time.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = key({})
    cwd: str | None = None
    text: str | None = None
    timeout: float | None = None
    fetches: bool = False


@dataclass(frozen=True)
class Started:
    """The process of a command."""

    pid: int


@dataclass(frozen=True)
class Start(Request[Started, NoReturn], op="start"):
    """Start a command that outlives the channel; its output is appended to the file `log`."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    log: str


@dataclass(frozen=True)
class Chunk:
    """This number of bytes of a file follows."""

    chunk: int = key(at_least=1)


@dataclass(frozen=True)
class Sent:
    """Files, each with its size: those that were sent, and those that exceeded the byte limit;
    `changed`: files that were truncated while they were sent, so their content is not usable."""

    files: tuple[tuple[str, int], ...]
    left: tuple[tuple[str, int], ...]
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Get(Request[Sent, Chunk], op="get", bounds=WORK):
    """Send the files below `root` that match, at most `limit` bytes, as one tar.gz."""

    root: str
    patterns: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class Digest:
    """The sha256 of what was sent."""

    sha256: str


@dataclass(frozen=True)
class GetFile(Request[Digest, Chunk], op="get_file", bounds=WORK):
    """Send one file of at most `limit` bytes as it is."""

    path: str
    limit: int


@dataclass(frozen=True)
class Collected(Sent):
    """A run's results; `skipped` lists what is not a regular file."""

    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class Collect(Request[Collected, Chunk], op="collect", bounds=WORK):
    """Send a run's results as they are now, at most `limit` bytes, as one tar.gz."""

    folder: str
    limit: int


@dataclass(frozen=True)
class MetricLine:
    """A line of metrics.jsonl, and the byte after it."""

    metrics: str
    offset: int = key(at_least=0)


@dataclass(frozen=True)
class LogLine:
    """A line of the log, and the byte after it."""

    log: str
    log_offset: int = key(at_least=0)


@dataclass(frozen=True)
class RunNow:
    """The text of state.json, and the last line of each rank."""

    state: str | None
    last: Mapping[str, str]


RunEvent = MetricLine | LogLine | RunNow


@dataclass(frozen=True)
class Followed:
    """How the following ended; `lost`: the supervisor has died."""

    lost: bool


@dataclass(frozen=True)
class Follow(
    Request[Followed, RunEvent],
    op="follow",
    bounds=Bounds(120, math.inf, math.inf),  # an event comes every 10 s; a run may take weeks
):
    """Send what a run reports until it ends: its metrics from byte `offset` on, its state, and with
    `log` (rank-0) the lines of this log from byte `log_offset` on."""

    folder: str
    offset: int = 0
    log: str | None = None
    log_offset: int = 0


@dataclass(frozen=True)
class Port:
    """A port that is listened on."""

    port: int = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class Listen(Request[Port, NoReturn], op="listen"):
    """Listen for test connections of peers until the agent ends."""

    address: str


@dataclass(frozen=True)
class Dialed:
    """For each peer None, or why it was not reached."""

    wrong: tuple[str | None, ...]


@dataclass(frozen=True)
class Dial(Request[Dialed, NoReturn], op="dial"):
    """Connect to peers, (address, port) each, within this number of seconds."""

    peers: tuple[tuple[str, int], ...]
    timeout: float

    def is_answered_by(self, reply: Dialed) -> bool:
        """One outcome for each peer."""
        return len(reply.wrong) == len(self.peers)


@dataclass(frozen=True)
class FreePorts:
    """Different ports that are free now."""

    ports: tuple[int, ...] = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class Ports(Request[FreePorts, NoReturn], op="ports"):
    """Find free ports."""

    count: int

    def is_answered_by(self, reply: FreePorts) -> bool:
        """As many ports as were requested."""
        return len({*reply.ports}) == len(reply.ports) == self.count


@dataclass(frozen=True)
class FoundPort:
    """A port that is free now; None if none is."""

    port: int | None = key(at_least=1, at_most=LAST_PORT)


@dataclass(frozen=True)
class FindPort(Request[FoundPort, NoReturn], op="free_port"):
    """Find the first port of 127.0.0.1 from `first` to `last` that nothing listens on."""

    first: int
    last: int

    def is_answered_by(self, reply: FoundPort) -> bool:
        """One of these, or none."""
        return reply.port is None or self.first <= reply.port <= self.last


@dataclass(frozen=True)
class DataFolder:
    """Whether data is complete, and how many bytes an interrupted transfer has stored."""

    complete: bool
    there: int = key(at_least=0)


@dataclass(frozen=True)
class DataFolders:
    """Each folder, and the free bytes of the disk."""

    folders: Mapping[str, DataFolder]
    free: int


@dataclass(frozen=True)
class DataState(Request[DataFolders, NoReturn], op="data_state", bounds=WORK):
    """Find which data is on the host, and how much of it."""

    folders: tuple[str, ...]

    def is_answered_by(self, reply: DataFolders) -> bool:
        """Each folder."""
        return {*self.folders} <= {*reply.folders}


PathKind = Literal["folder", "empty", "file", "unreadable", "missing"]


@dataclass(frozen=True)
class PathKinds:
    """What each path is; `empty` is a folder without entries."""

    paths: Mapping[str, PathKind]


@dataclass(frozen=True)
class PathsState(Request[PathKinds, NoReturn], op="paths_state", bounds=WORK):
    """Find what kind each path is."""

    paths: tuple[str, ...]

    def is_answered_by(self, reply: PathKinds) -> bool:
        """Each path."""
        return {*self.paths} <= {*reply.paths}


@dataclass(frozen=True)
class NeededParts:
    """Files of a manifest that the host lacks: the number of each, and its first byte. The contents
    follow, without any framing. An operation may have several such events."""

    need: tuple[tuple[int, int], ...] = key(at_least=0)


@dataclass(frozen=True)
class Received:
    """The paths whose content differs from the manifest; if there is any, nothing is complete."""

    wrong: tuple[str, ...]


@dataclass(frozen=True)
class ReceiveData(Request[Received, NeededParts], op="receive_data", bounds=LONG):
    """Fill a folder of data with exactly these files: path, bytes and sha256 each."""

    folder: str
    manifest: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True)
class MakeTemporary(Request[None, NoReturn], op="make_temporary"):
    """Create the temporary folders of a run."""

    folder: str


@dataclass(frozen=True)
class DropTemporary(Request[None, NoReturn], op="drop_temporary_of"):
    """Remove the temporary folders of a run."""

    run_id: str


@dataclass(frozen=True)
class PlacePrograms(Request[None, NoReturn], op="place_programs"):
    """Put the archive of the agent, with the programs of a host, into a folder."""

    folder: str


@dataclass(frozen=True)
class Running:
    """Whether a program runs."""

    running: bool


@dataclass(frozen=True)
class IsRunning(Request[Running, NoReturn], op="is_running"):
    """Find whether a process is this program (remote/programs.py) of a run or an endpoint."""

    pid: int
    folder: str
    program: str


@dataclass(frozen=True)
class EndRun(Request[Swept, NoReturn], op="end_run", bounds=WORK):
    """End every process of a run ("all": of any run); with another `variable` in their environment
    those of an endpoint."""

    run_id: str
    variable: str = OF_RUNS
