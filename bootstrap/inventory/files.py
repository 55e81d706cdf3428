"""Files on this computer: atomic writes, and the space for what comes from elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..console.text import size
from ..errors import Hint, UsageError

RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]+")  # as runs/launch.py makes them
RESERVED = 100_000_000  # bytes of the local disk that stay free


def existing_path(text: str | Path) -> Path | None:
    """The file or folder of this computer that a user names, with `~` replaced; None if there is
    none, also for a name that cannot exist."""
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long; the home of an unknown user; a NUL
        return None


def folder_option(text: str, option: str) -> Path:
    """The absolute path of a folder that an option names, which need not exist.

    Raises:
        UsageError: it cannot exist.
    """
    try:
        path = Path(text).expanduser().resolve()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option}: no folder can have this name: {reason}") from None
    return path


def read_given(path: str | Path, option: str, most: int) -> bytes:
    """The content of a file that a user names: a regular file of at most `most` bytes.

    A device or a pipe may have no end, and is not opened for long.

    Args:
        option: for messages: the option and the value, as it was typed.

    Raises:
        UsageError: it is another kind of file, is too large, or cannot be read.
    """
    try:
        descriptor = os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{option}: must be a regular file, not a folder, device or pipe")
            data = file.read(most + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option}: {reason}") from None
    if len(data) > most:
        raise UsageError(f"{option}: must have at most {size(most)}")
    return data


def text_given(path: str | Path, option: str, most: int) -> str:
    """The same for a text. Raises as `read_given`; UsageError if it is not UTF-8."""
    try:
        return read_given(path, option, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{option}: not UTF-8 text") from None


def folders_above(folder: Path) -> list[Path]:
    """The folder and those above it, only outside fetched results: hosts have written those."""
    places = [folder, *folder.parents]
    of_runs = (n + 1 for n, place in enumerate(places) if RUN_ID.fullmatch(place.name))
    return places[max(of_runs, default=0) :]


def refuse_of_others(file: Path) -> None:
    """Refuse a file that decides what runs on this computer, or what leaves it, if another user has
    written it, or can write it: as git does with the folder of a repository.

    Raises:
        UsageError: with the name of its owner.
    """
    allowed = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        allowed.add(int(os.environ["SUDO_UID"]))
    for path in (file.resolve(), file.resolve().parent):
        try:
            status = path.stat()
        except OSError:
            continue  # reported when it is read
        why = ""
        if status.st_uid not in allowed:
            why = f"belongs to {_user(status.st_uid)}, not to you"
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            why = "can be written by every user"
        if why:
            raise UsageError(
                f"{file} is not used: {path} {why}, and the file decides what runs here",
                hint=Hint(
                    f"read it, then copy it into a folder of yours: {shlex.quote(str(file))}"
                ),
            )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def hosts_of_file(text: str) -> str:
    """How to name the hosts that a file lists; empty if the text is not the path of a file."""
    file = text.removeprefix("@")
    with contextlib.suppress(OSError):  # a text that is too long for a path
        if Path(file).is_file():
            listed = f'"$(paste -sd, {shlex.quote(file)})"'
            return f"the same command with --hosts {listed}   # a file with one host per line"
    return ""


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, each for the user alone: `Path.mkdir` applies its
    mode to the last one only."""
    if not folder.parent.is_dir():
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def atomic_write(path: Path, data: str | bytes, mode: int = 0o600) -> None:
    """Write a file beside `path` and rename it into place; text is written as UTF-8.

    A crash leaves the old file or the new one, never a part of one. A link at `path` is
    replaced, not followed. Missing parent folders are created with mode 0700.
    """
    make_private(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            os.fchmod(file.fileno(), mode)
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk is an error without a path
        temporary.unlink(missing_ok=True)
        raise


def set_aside(path: Path) -> Path:
    """Rename what is damaged, a file or a folder, to a free name beside it; returns that."""
    names = (f"{path.name}.damaged{number or ''}" for number in itertools.count())
    free = next(path.with_name(name) for name in names if not os.path.lexists(path.parent / name))
    path.replace(free)
    return free


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder, renamed to `path` when the block ends without an error. Its parent is for
    temporary files; the parent is removed afterwards, or by the next call after a crash.

    The caller holds a lock (`locks.wait_lock`), so that no other process fills the same folder.
    """
    parent = path.with_name(f".{path.name}.part")
    shutil.rmtree(parent, ignore_errors=True)
    folder = parent / path.name
    folder.mkdir(parents=True, mode=0o700)
    try:
        yield folder
        folder.replace(path)
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def refuse_too_much(total: int, folder: Path, subject: str) -> None:
    """UsageError when `total` bytes would leave less than RESERVED free on the local disk."""
    free = shutil.disk_usage(folder).free
    if total > free - RESERVED:
        raise UsageError(
            f"{subject} have {size(total)}, and {folder.parent} has {size(free)} free: "
            f"{size(RESERVED)} of it must stay free",
            hint="free some disk space, then the same command again",
        )
