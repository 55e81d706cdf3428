"""Operations of the agent that write, read and remove files."""

from __future__ import annotations

from typing import NoReturn

from railhead.documents.agent.request import WORK, Request
from railhead.documents.lazy import dataclass


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
    """Read a small file. One that cannot be read counts as missing, unless `strict`: then it is an
    error."""

    path: str
    strict: bool = False


@dataclass(frozen=True)
class Replaced:
    """Whether the file had the expected text and was replaced."""

    replaced: bool


@dataclass(frozen=True)
class Replace(Request[Replaced, NoReturn], op="replace"):
    """Write a small file whose text is still `before`; None: it does not exist."""

    file: TextFile
    before: str | None


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
