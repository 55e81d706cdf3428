"""Operations of the agent on the data of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NoReturn

from railhead.documents.agent.request import LONG, WORK, Request
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass


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
        """Whether the reply has each folder."""
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
        """Whether the reply has each path."""
        return {*self.paths} <= {*reply.paths}


@dataclass(frozen=True)
class NeededParts:
    """Files of a manifest that the host lacks: the number of each, and its first byte. The contents
    follow, without any framing. An operation may have several such events."""

    need: tuple[tuple[int, int], ...] = key(at_least=0)


@dataclass(frozen=True)
class Received:
    """The paths whose content differs from the manifest; if there are any, the data is not
    complete."""

    wrong: tuple[str, ...]


@dataclass(frozen=True)
class ReceiveData(Request[Received, NeededParts], op="receive_data", bounds=LONG):
    """Fill a folder of data with exactly these files: path, bytes and sha256 each."""

    folder: str
    manifest: tuple[tuple[str, int, str], ...]
