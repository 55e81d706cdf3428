"""Sends local data to the hosts: each host gets a folder once, named by a digest of its content.

The state of all hosts is read first, the space is computed, then all hosts receive at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from railhead.documents.agent.data import DataState, NeededParts, ReceiveData
from railhead.documents.lazy import dataclass

from ..console.live import Board
from ..console.progress import Transfer
from ..console.text import size
from ..errors import Command, Hint, HostsNotReady, RailheadError
from ..ssh.connect import everywhere
from ..ssh.session import Session
from ..untrusted.unpack import Hostile
from .folders import LocalData, summary

HOME = "~/.railhead/data"
PIECE = 1 << 20  # bytes
Shares = Mapping[str, Mapping[str, LocalData]]  # by host, by name: the files that a host gets


def host_folder_of(data: LocalData) -> str:
    """The folder of data on a host."""
    return f"{HOME}/{data.digest}"


@dataclass(frozen=True)
class Missing:
    """What a host lacks: the names of its incomplete data and their bytes; `free` on its disk."""

    names: tuple[str, ...]
    needed: int
    free: int


def find_missing(shares: Shares, opened: Mapping[str, Session]) -> dict[str, Missing]:
    """What each host lacks.

    Raises:
        HostsNotReady: a host has too little space; nothing was sent.
    """

    def missing_of(session: Session) -> Missing:
        share = shares[session.host.name]
        state = session.call(DataState(tuple(host_folder_of(data) for data in share.values())))
        folders = {name: state.folders[host_folder_of(data)] for name, data in share.items()}
        names = tuple(name for name in share if not folders[name].complete)
        needed = sum(max(0, share[name].total_bytes - folders[name].there) for name in names)
        return Missing(names, needed, state.free)

    lacks = everywhere(opened, missing_of, what="looking for the data", error=HostsNotReady)
    short = {
        name: f"needs {size(lack.needed)} for the data, {size(lack.free)} are free"
        for name, lack in lacks.items()
        if lack.needed > lack.free
    }
    if short:
        raise HostsNotReady(
            f"disk full: not enough space for the data on {len(short)} of {len(lacks)} hosts",
            {name: short.get(name, "ok") for name in lacks},
            hint=Hint(
                Command("exec", cmd="du -sh ~/.railhead/data/*"), "   # data of earlier runs"
            ),
        )
    return lacks


def send_missing(
    shares: Shares,
    opened: Mapping[str, Session],
    lacks: Mapping[str, Missing],
    board: Board,
    prepare: Callable[[Session, LocalData, Board], None] = lambda session, data, board: None,
) -> None:
    """Make the data complete on all hosts at once. `prepare` is called before each folder of a host
    is filled over its connection.

    Raises:
        HostsFailed: it failed on a host; what arrived there stays for the next attempt.
    """

    def send_to(session: Session) -> None:
        name = session.host.name
        for item in lacks[name].names:
            data = shares[name][item]
            prepare(session, data, board)
            _send(session, item, data, board)
            board.line(name, f"data {item}: {summary(data)}, complete", state=f"{item} complete")

    incomplete = {name: session for name, session in opened.items() if lacks[name].names}
    everywhere(incomplete, send_to, what="sending the data")


def _send(session: Session, item: str, data: LocalData, board: Board) -> None:
    """Send the files of one folder that a host lacks."""
    name, progress = session.host.name, Transfer(0)
    requested: set[int] = set()

    def content(event: NeededParts) -> Iterator[bytes]:
        needed = event.need
        _refuse_wrong(data, needed, requested)
        requested.update(number for number, _ in needed)
        progress.total += sum(data.files[number].size - offset for number, offset in needed)
        for number, offset in needed:
            for piece in _pieces(data, number, offset):
                yield piece
                text, done = progress.add(len(piece))
                board.line(name, f"data {item}: {text}", done)

    request = ReceiveData(host_folder_of(data), data.manifest())
    if wrong := session.send_stream(request, content).wrong:
        raise RailheadError(
            f"{data.root / wrong[0]} changed while it was sent",
            hint="run the command again when nothing writes to the data any more",
        )


def _refuse_wrong(data: LocalData, needed: Sequence[tuple[int, int]], before: Set[int]) -> None:
    """Raise Hostile unless a host requests files of the data, each once, and none that it requested
    `before`."""
    for number, offset in needed:
        if number >= len(data.files) or offset > data.files[number].size:
            raise Hostile("a request for a file that the data does not have")
    numbers = {number for number, _ in needed}
    if len(numbers) < len(needed) or numbers & before:
        raise Hostile("a request for the same file twice")


def _pieces(data: LocalData, number: int, offset: int) -> Iterator[bytes]:
    """A file from `offset` on, exactly as many bytes as it had when it was listed: the host notices
    a change by the hash."""
    file = data.files[number]
    path, remaining = data.root / file.path, file.size - offset
    try:
        with path.open("rb") as content:
            content.seek(offset)
            while remaining:
                piece = content.read(min(remaining, PIECE)) or bytes(min(remaining, PIECE))
                yield piece
                remaining -= len(piece)
    except OSError as error:
        raise RailheadError(f"cannot read {path}: {error.strerror}") from error
