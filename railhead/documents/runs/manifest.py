"""The lists of a run's files, with what verifies a copy of each.

results/manifest.json names the results; checkpoints/manifest.json in the bucket the uploaded
checkpoints. Others are the chief's own: before.json, results/outputs.json, uploads.json.
"""

from __future__ import annotations

import unicodedata

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

# The tag of objects in S3 whose old versions the bucket removes after a day; in Cloud Storage these
# objects have a customTime, and others have none.
SHORT_LIVED = ("railhead", "checkpoint")
FILES = 100_000  # in one archive or list: far more than a run writes, and 20 MB as JSON
DEPTH = 32  # folders above a file: a SavedModel takes 3, and no name comes near PATH_MAX
NAME = 1024  # bytes of a whole path
PART = 240  # bytes between two slashes: file systems allow 255, and we add suffixes
FORBIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, direction, not UTF-8, line breaks


def fault(path: str) -> str:
    """Why a relative path is refused; "" for one that a file may have on every computer."""
    plain = path.isascii() and path.isprintable()  # true for most paths: there may be many
    if not plain and any(unicodedata.category(char) in FORBIDDEN for char in path):
        return "has control characters or is not UTF-8"
    parts = path.split("/")
    if any(name in ("", ".", "..") for name in parts):
        return "is not a plain path below its folder"
    if len(parts) > DEPTH:
        return f"is more than {DEPTH} folders deep"
    if len(path.encode()) > NAME or any(len(name.encode()) > PART for name in parts):
        return f"is longer than {NAME} bytes, or {PART} between two slashes"
    return ""


PATH = (lambda path: not fault(path), "a plain path below its folder, without control characters")


@dataclass(frozen=True)
class Entry:
    """One file: its path relative to the folder of the run, its size and its hash."""

    path: str = key(check=PATH)
    bytes: int = key(at_least=0)
    sha256: str = key(pattern="[0-9a-f]{64}")

    @property
    def home(self) -> str:
        """The file's name in the folder of the results on the user's computer."""
        return home_name(self.path)


@dataclass(frozen=True)
class Skipped:
    """A path in a run's folder that is not copied, and why: `link`, `FIFO`, ..."""

    path: str
    kind: str

    @property
    def is_file(self) -> bool:
        """Whether this is a file with content; its content then exists only on the host."""
        return self.kind not in ("link", "FIFO", "socket", "device")


@dataclass(frozen=True)
class Manifest:
    """The results of a run that has ended, and the skipped paths of its folder."""

    files: tuple[Entry, ...]
    skipped: tuple[Skipped, ...] = ()
    schema: int = 1


@dataclass(frozen=True)
class Uploaded(Entry):
    """A file of a checkpoint in the bucket. `path` is relative to the checkpoint folder; `object`
    is the number of its object."""

    mtime_ns: int = key()
    object: int = key(at_least=0)


@dataclass(frozen=True)
class UploadedCheckpoints:
    """The files of the checkpoints in the bucket. `term`: in which term of the run's lease it was
    written; 0 for a run without one."""

    files: tuple[Uploaded, ...]
    schema: int = 1
    term: int = key(0, at_least=0, omit=True)


@dataclass(frozen=True)
class Uploads:
    """uploads.json. `at`: the time of the last upload, seconds since 1970; `failed` counts the
    tries that failed; `why`: why the last one did, None if it did not."""

    files: tuple[Uploaded, ...] = ()
    at: float | None = None
    failed: int = 0
    why: str | None = None


Sizes = tuple[tuple[str, int], ...]  # path and bytes of each file
Snapshot = dict[str, tuple[int, int]]  # bytes, and the time of the last change in ns, by path


@dataclass(frozen=True)
class Outputs:
    """results/outputs.json: what the program wrote in work/."""

    files: Sizes


@dataclass(frozen=True)
class Fetched:
    """`fetched` on the chief: a controller has the results, except for `left` files."""

    left: int = 0


@dataclass(frozen=True)
class Restored:
    """The outcome of restore_checkpoints.py; `damaged` are the paths of what it left out."""

    files: int
    bytes: int
    damaged: tuple[str, ...]


def home_name(path: str) -> str:
    """The path of a run's file in the results folder: results/ is the top, work/ is outputs/."""
    if path.startswith("work/"):
        return "outputs/" + path[len("work/") :]
    return path[len("results/") :] if path.startswith("results/") else path
