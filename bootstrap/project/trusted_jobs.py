"""Job files that the user has read: a new one needs consent once, if it names what leaves this
computer or runs on it, as direnv asks for the file of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

from railhead.documents.options.jobs import Table, keys
from railhead.documents.uri import scheme_of

from ..console.output import confirm
from ..data.spec import ON_HOSTS
from ..errors import Command, UsageError
from ..inventory import local_state
from ..inventory.files import atomic_write, read_given

BYTES = 1_000_000  # of a job file
ALWAYS = ("secret", "env-file", "training")  # keys that need consent, whatever their value


def check(file: str, name: str, table: Table) -> None:
    """Ask for a job of a file that is new to this computer, and record the file.

    Raises:
        UsageError: the user does not agree, or there is no terminal.
    """
    if uses := [f"{name}: {line}" for line in wants(table, Path(file).resolve().parent)]:
        trust(file, uses, yes=False)


def trust(file: str, uses: list[str], *, yes: bool) -> str:
    """Ask for what the jobs of a file want, unless it is recorded already, and record it; a line
    about it.

    Raises:
        UsageError: the user does not agree, or there is no terminal.
    """
    path = Path(file).resolve()
    if not uses:
        return f"{file} needs no trust: its jobs send and run only what is in its folder"
    if is_known(path):
        return f"{file} is trusted already"
    listed = "\n".join(f"  {line}" for line in uses)
    question = f"{file} is new to this computer. Its jobs use:\n{listed}\nHave you read it?"
    hint = str(Command("trust", job=file, yes=True))  # text: it needs no hosts
    if not yes and not confirm(question, hint=hint):
        raise UsageError(f"{file} is not trusted: nothing was done", hint=hint)
    record(path)
    return f"{file} is trusted until it changes"


def wants(table: Table, folder: Path) -> Iterator[str]:
    """The keys of a job that send what is not in its folder, or run code here, with their values.
    Relative paths are those of the current folder, as in a job."""
    paths = [key for key, option in keys().items() if option.rule.path and key not in ALWAYS]
    for key in ALWAYS:
        if key in table:
            value = table[key]
            yield f"{key} = {', '.join(map(str, value)) if isinstance(value, list) else value}"
    named = [(key, table[key]) for key in paths if key in table]
    data = table.get("data")
    if isinstance(data, dict):
        named += [(f"data.{name}", value) for name, value in data.items()]
    for key, value in named:
        if is_outside(value, folder):
            yield f"{key} = {value}"


def is_outside(value: Any, folder: Path) -> bool:
    """Whether a path of a job, perhaps with options after commas, may be outside its folder."""
    text = str(value)
    if scheme_of(text) or text.startswith(ON_HOSTS):
        return False
    for prefix in accumulate(text.split(","), "{},{}".format):
        try:
            place = Path(prefix).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            return True
        if place != folder and folder not in place.parents:
            return True
    return False


def is_known(path: Path) -> bool:
    """Whether the file is recorded with its present content."""
    return digest_of(path) in _recorded()


def record(path: Path) -> None:
    """Record the file with its present content."""
    if (digest := digest_of(path)) not in (recorded := _recorded()):
        atomic_write(_list(), "".join(f"{line}\n" for line in [*recorded, digest]))


def digest_of(path: Path) -> str:
    """The digest of a job file and its place, on which the paths in it depend."""
    return sha256(f"{path}\0".encode() + read_given(path, str(path), BYTES)).hexdigest()


def _list() -> Path:
    return local_state.home() / "trusted-jobs"


def _recorded() -> list[str]:
    try:
        return _list().read_text(errors="replace").split()
    except FileNotFoundError:
        return []
