"""The job file: `railhead.toml` has one table of options for each job."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.options.jobs import PLACES, JobOptions, Table, checked, keys, table_of

from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..inventory.files import atomic_write, refuse_of_others, text_given
from . import trusted_jobs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "railhead.toml"
HEADER = "# Jobs: each key is an option of train. Its values apply where none is typed.\n"
BYTES = 1_000_000
NAME = "train"  # of a job that is saved without a name
BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Job:
    """A job of a file: its options as written there, and their values."""

    file: str
    name: str
    table: Table

    @property
    def values(self) -> Table:
        """The values of its options."""
        return checked(self.table, self.error)

    def error(self, message: str) -> UsageError:
        """The error for a key or value of the job."""
        return UsageError(f"{self.file}: job {self.name}: {message}")


def chosen(options: JobOptions) -> Job | None:
    """The job that the options name; None where they name none, or the one that is saved.

    Raises:
        UsageError: there is no such job, or it has a wrong key or value.
    """
    if options.job is None and options.file is None:
        return None
    if options.save is not None and options.file is None:
        return None
    file = options.file or FILE
    jobs = _read(Path(file), options.job)
    name = options.job or (next(iter(jobs)) if len(jobs) == 1 else "")
    if name not in jobs:
        problem = f"has no job {name}; it has" if name else "is given without a job; it has"
        raise UsageError(
            f"{file} {problem} {', '.join(jobs) or 'none'}",
            hint=Command("train", *list(jobs)[:1]) if jobs else "",
        )
    job = Job(file, name, jobs[name])
    checked(job.table, job.error)
    return job


def ask(job: Job) -> None:
    """Ask for a job whose file is new to this computer, where it may send or run what is not its
    own.

    Raises:
        UsageError: the user does not agree, or there is no terminal.
    """
    trusted_jobs.check(job.file, job.name, job.table)


def trust(file: str, *, yes: bool) -> str:
    """Ask for all jobs of a file, and record it; a line about it. Raises as `ask`."""
    path = Path(file)
    return trusted_jobs.trust(file, [*_wants(path)], yes=yes)


def _wants(path: Path) -> list[str]:
    """What the jobs of a file send or run that is not its own."""
    jobs, folder = _read(path, None), path.resolve().parent
    return [f"{name}: {x}" for name in jobs for x in trusted_jobs.wants(jobs[name], folder)]


def names(path: Path) -> list[str]:
    """The names of the jobs in a file; UsageError if it cannot be read."""
    return list(_read(path, None))


def has(path: Path, name: str) -> bool:
    """Whether there is such a file, and it has this job."""
    try:
        return name in names(path)
    except UsageError:
        return False


def _read(path: Path, job: str | None) -> Mapping[str, Table]:
    """The jobs of a file by name."""
    if not os.path.lexists(path):
        also = f", for the job {job}" if job else ""
        raise UsageError(
            f"there is no {path}{also}",
            hint=Hint(
                Command("train", save=FILE), " ...   # writes one; not a job: --script, --preset"
            ),
        )
    text = text_given(path, str(path), BYTES)
    refuse_of_others(path)
    try:
        jobs = tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: a value must not be nested so deeply") from None
    for name, table in jobs.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{path}: {name} is not in a job: write it below a line such as [{NAME}]"
            )
    return jobs


def save(options: JobOptions, *groups: Any) -> None:
    """Add a job with the options of these groups to the file that --save names.

    Raises:
        UsageError: it has the job already, or is not a job file.
    """
    assert options.save
    path, name = Path(options.save), options.job or NAME
    exists = path.exists()
    is_trusted = not exists or not _wants(path) or trusted_jobs.is_known(path.resolve())
    if exists and name in _read(path, None):
        raise UsageError(
            f"{path} has a job {name} already: name another one",
            hint=Command("train", job=f"{name}-2", save=options.save),
        )
    before = text_given(path, str(path), BYTES) if exists else HEADER
    mode = path.stat().st_mode & 0o777 if exists else 0o644
    atomic_write(path, f"{before.rstrip()}\n\n{text_of(name, table_of(*groups))}", mode)
    if is_trusted:  # all of it was typed here, or agreed to
        trusted_jobs.record(path.resolve())
    file = {} if path == Path(FILE) else {"file": options.save}
    print_lines(f"written: job {name} in {path}", f"next: {Command('train', name, **file)}")


def text_of(name: str, table: Table) -> str:
    """A job as TOML."""
    lines = [f"[{_key(name)}]"]
    lines += [f"{key} = {_with_unit(key, value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Mapping():
            return f"{{{', '.join(f'{_key(k)} = {_toml(v)}' for k, v in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _with_unit(key: str, value: Any) -> str:
    """A value as TOML; a time with its unit, which another tool may have in mind."""
    unit = keys()[key].rule.unit if key in keys() else ""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return _toml(f"{value:g}{unit}" if unit and is_number else value)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _toml(name)


def describe(job: Job, *groups: Any) -> Iterator[str]:
    """Each option of a command on a job, and where its value comes from.

    Args:
        groups: the options of the command, with those of the job.
    """
    used, of_job = table_of(*groups), job.values
    if any(place in used for place in PLACES):
        of_job = {key: value for key, value in of_job.items() if key in used or key not in PLACES}
    yield f"job {job.name} of {job.file}:"
    for key in keys():
        if key in used and used[key] != of_job.get(key):
            yield f"  {key} = {_with_unit(key, used[key])}   # command line"
        elif key in of_job:
            yield f"  {key} = {_with_unit(key, of_job[key])}   # {job.file}"
    yield "  all other options: their defaults"
