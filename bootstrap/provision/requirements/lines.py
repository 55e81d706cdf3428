"""The file of --requirements: its lines, and those of the files that it includes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from railhead.documents.lazy import dataclass

from ...errors import UsageError
from ...inventory.files import text_given
from .sources import SourceLine, read_line

REQUIREMENTS_BYTES = 1_000_000
INCLUDED = 8  # files that include each other
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:\s*=\s*|\s+|$)(.*)")
_INCLUDES = ("-r", "--requirement", "--requirements")
_OF_FILES = ("-c", "--constraint", "--constraints", "-f", "--find-links")
_INDEX_OPTIONS: tuple[str, ...] = ("-i", "--index-url", "--extra-index-url", "--no-index")
_INDEX_OPTIONS += ("-f", "--find-links", "--trusted-host")
_INDEX_OPTIONS += ("--pre", "--prefer-binary", "--require-hashes")
_ADDRESS = re.compile(r"[/\\]|^\.")  # a path, a URL or a repository
_WHEEL = re.compile(r"https?://[^?#]*\.whl(\?[^#]*)?(#.*)?")


@dataclass(frozen=True)
class Requirements:
    """A file of --requirements, with the files that it includes: `text` is what uv resolves."""

    text: str
    sources: tuple[SourceLine, ...]


@dataclass(frozen=True)
class _Line:
    """A line without its comment. `label`: how its file was named. `source`: what it names, if that
    is not a wheel."""

    label: str
    number: int
    text: str
    source: SourceLine | None


def read_requirements(file: str | Path) -> Requirements:
    """The file of --requirements, checked as far as possible without a host. UsageError: it is
    missing, a line is not a requirement or would be built here, or it installs Horovod."""
    lines, sources = [], []
    for line in _lines(Path(file), f"--requirements {file}", INCLUDED):
        if line.source:
            sources.append(line.source)
            continue
        if not line.text.startswith("-"):
            _check(line, Path(file))
        lines.append(f"{line.text}\n")
    return Requirements("".join(lines), tuple(sources))


def _check(line: _Line, file: Path) -> None:
    """UsageError if a line is not a requirement of a wheel."""
    from packaging.requirements import InvalidRequirement, Requirement  # 40 ms
    from packaging.utils import canonicalize_name

    specifier = re.split(r"\s--", line.text)[0].strip()
    try:
        requirement = Requirement(specifier)
    except InvalidRequirement as error:
        if _ADDRESS.search(specifier):
            raise _not_built(line) from None
        raise UsageError(
            f"{line.label}: line {line.number} must be a package and its versions, such as"
            f" keras-cv>=0.9: {error}"
        ) from None
    if requirement.url and not _WHEEL.fullmatch(requirement.url):
        raise _not_built(line)
    if canonicalize_name(requirement.name) == "horovod":
        raise brings_horovod(file, "the runtimes have it, compiled for the hosts")


def _lines(path: Path, label: str, deep: int) -> Iterator[_Line]:
    """The lines of a file, and of those that it includes. UsageError: an option that would build a
    package here, or that is not known."""
    text = text_given(path, label, REQUIREMENTS_BYTES)
    folder = path.absolute().parent
    for number, raw in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        words = re.split(r"(?:^|\s)#", raw)[0].strip()
        line = _Line(label, number, words, read_line(words, folder))
        option = _OPTION.fullmatch(words)
        if line.source or not words.startswith("-"):
            yield from [line] if words else []
        elif option and option[1] in _INCLUDES:
            if not deep:
                raise UsageError(f"{label}: line {number}: files must not include each other")
            yield from _lines(folder / option[2], f"{label}: {words}", deep - 1)
        elif option and option[1] in _OF_FILES and "://" not in option[2]:
            yield replace(line, text=f"{option[1]} {folder / option[2]}")
        elif option and option[1] in _INDEX_OPTIONS:
            yield line
        else:
            raise _not_built(line)


def _not_built(line: _Line) -> UsageError:
    return UsageError(
        f"{line.label}: line {line.number}, {line.text}: packages come as wheels, from an index or"
        " an https:// address of one, or as a folder or git repository, which hosts build: to build"
        " a package would run its code on this computer",
        hint="unpack it and name its folder, which has a pyproject.toml or setup.py, as ./FOLDER",
    )


def brings_horovod(requirements: Path, why: str) -> UsageError:
    """A refusal of packages that bring Horovod."""
    hint = f"remove it from {requirements.name}, and the package that requires it, if any"
    return UsageError(f"--requirements {requirements} installs horovod: {why}", hint=hint)
