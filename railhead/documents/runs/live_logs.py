"""The logs of a run in its bucket, during the run: live-logs/NAME.NUMBER, each a piece of a log.

A piece is a line of JSON (`Piece`) and then at most PIECE bytes of the log. The numbers of a log
are reused in turn, so that its last PIECES pieces are kept. An empty object is not a piece: the
complete log is among the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass, field

FOLDER = "live-logs"
PIECE = 256 << 10  # bytes of a log in one object
PIECES = 256  # objects of one log: 64 MB
HEAD = 200  # bytes of the line of JSON, at most
LATEST = 32_503_680_000  # seconds since 1970: the year 3000


@dataclass(frozen=True)
class Piece:
    """Where a piece begins in all output of its log, and when it was read (seconds since 1970)."""

    begin: int = key(at_least=0)
    at: float = key(at_least=0, at_most=LATEST)


@dataclass(frozen=True)
class Progress:
    """How much of a log was uploaded: `inode`, `born` (its creation, 0 if unknown) and `position`
    in its file, `sent` bytes in all, the `number` of the next piece."""

    inode: int = 0
    position: int = 0
    sent: int = 0
    number: int = 0
    born: float = key(0.0, omit=True)


@dataclass(frozen=True)
class LiveUploads:
    """live.json in a run's folder: what was uploaded of files that grow. `files`: bytes of metrics
    and events by name. `failed`: the tries that failed; `why`: why the last one did, None if it did
    not."""

    logs: dict[str, Progress] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    why: str | None = None


def joined(pieces: Iterable[tuple[Piece, bytes]]) -> Iterator[bytes]:
    """The parts of a log in their order, each byte once; a line in place of missing parts."""
    end = 0
    for piece, data in sorted(pieces, key=lambda pair: pair[0].begin):
        if piece.begin > end:
            lost = f"{piece.begin - end:,} or more bytes"
            yield f"\n[{lost} of the log are not in the bucket]\n".encode()
        yield data[max(0, end - piece.begin) :]
        end = max(end, piece.begin + len(data))


def object_of(name: str, number: int) -> str:
    """The name of a piece's object, below the run's folder in the bucket."""
    return f"{FOLDER}/{name}.{number % PIECES:04d}"


def packed(piece: Piece, data: bytes) -> bytes:
    """The content of an object."""
    return json.dumps(encode(piece)).encode() + b"\n" + data
