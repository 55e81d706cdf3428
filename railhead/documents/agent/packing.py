"""Operations of the agent that send files of a host."""

from __future__ import annotations

from railhead.documents.agent.request import WORK, Chunk, Request
from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Skipped


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
