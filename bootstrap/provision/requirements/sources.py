"""Packages of --requirements that come as source: a folder here, or a git repository. They are sent
as they are and built on each host, because a build runs their code."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

from railhead.documents.lazy import dataclass

from ...errors import RailheadError, UsageError
from ...host.base import locks
from ...inventory import caches, local_state
from ...inventory.files import text_given
from ...inventory.git import git
from ...plan.runtimes import Source
from ...ssh.bundle import Bundle, pack_every_file, pack_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_BYTES = 1_000_000
SECONDS = 300.0  # for git, to fetch one commit
_SOURCE = re.compile(
    r"(?:-e\s*|--editable(?:\s*=\s*|\s+))?"
    r"(?:(?P<name>[\w.-]+)\s*(?:\[(?P<named>[\w,\s.-]*)\])?\s*@\s*)?"
    r"(?P<place>git\+(?:https|ssh)://[^\s;]+|file:///[^\s;#\[]+|\.{0,2}/[^\s;#\[]*|\.{1,2})"
    r"(?:\[(?P<extras>[\w,\s.-]*)\])?"
)
_REPOSITORY = re.compile(
    r"git\+(?P<url>(?:https://|ssh://(?:[\w.-]+@)?)[\w.:-]+/[\w./~+-]+)"
    r"(?:@(?P<ref>\w[\w./+-]*))?(?:#(?P<more>[\w=&./\[\],-]*))?"
)
# git uses the user's own settings, which may have credentials for the address; other transports are
# not allowed.
FETCHES = ("protocol.https.allow=always", "protocol.ssh.allow=always", "gc.auto=0")
FOR_FETCH = ("SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")


@dataclass(frozen=True)
class SourceLine:
    """A line that names a package's source. `place`: an absolute folder, or what `_REPOSITORY`
    matches. `extras`: of its optional dependencies."""

    text: str
    place: str
    extras: tuple[str, ...] = ()


def read_line(text: str, base: Path) -> SourceLine | None:
    """What a line of a requirements file in the folder `base` names, if that is a folder with a
    Python project, or a git repository."""
    match = _SOURCE.fullmatch(text)
    if match is None:
        return None
    place = match["place"]
    extras = _names_in(match["extras"] or match["named"] or "")
    if place.startswith("git+"):
        return SourceLine(text, place, extras) if _REPOSITORY.fullmatch(place) else None
    folder = (base / place.removeprefix("file://")).absolute()
    is_project = any((folder / name).is_file() for name in ("pyproject.toml", "setup.py"))
    return SourceLine(text, str(folder), extras) if is_project else None


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[\w.-]+", text))


def fetched(line: SourceLine) -> Source:
    """The source that a line names, with the requirements that it declares. UsageError: git cannot
    fetch it, a file cannot be sent, or its pyproject.toml is damaged."""
    repository = _REPOSITORY.fullmatch(line.place)
    root, inside, extras = Path(line.place), "", line.extras
    if repository:
        more = parse_qs(repository["more"] or "")
        inside = more.get("subdirectory", [""])[0].strip("/")
        root = _checkout(line, repository["url"], repository["ref"] or "HEAD")
        extras += _names_in(more.get("egg", [""])[0].partition("[")[2])
    source = Source(line.text, root, inside, from_git=bool(repository))
    return replace(
        source, digest=packed(source).digest, requires=_requires(line, root / inside, extras)
    )


def packed(source: Source) -> Bundle:
    """The files of a source. Of a repository, every file is packed. RailheadError: they have
    changed since the source was read."""
    bundle = (pack_every_file if source.from_git else pack_folder)(source.root)
    if source.digest not in ("", bundle.digest):
        raise RailheadError(f"{source.text} has changed meanwhile", hint="type the command again")
    return bundle


def _requires(line: SourceLine, folder: Path, extras: Sequence[str]) -> tuple[str, ...] | None:
    """The requirements in a pyproject.toml; None if its build decides them."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    try:
        document = tomllib.loads(text_given(file, line.text, PROJECT_BYTES))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{file} is not TOML: {error}", hint=f"mend it; {line.text} is built from it"
        ) from None
    project = document.get("project", {})
    if not project or {"dependencies", "optional-dependencies"} & {*project.get("dynamic", ())}:
        return None
    optional = project.get("optional-dependencies", {})
    lists = [project.get("dependencies", ()), *(optional.get(extra, ()) for extra in extras)]
    return tuple(str(requirement) for some in lists for requirement in some)


def _checkout(line: SourceLine, url: str, ref: str) -> Path:
    """The files of a commit, fetched by git; a branch is resolved again each time."""
    cache = caches.cache("sources")
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    with locks.wait_lock(cache / f"{name}.lock"):
        repository = local_state.filled_once(cache / f"{name}.git", _new_repository)
        commit = _commit(line, repository, url, ref)
        return local_state.filled_once(
            cache / commit, lambda partial: _write(repository, commit, partial)
        )


def _commit(line: SourceLine, repository: Path, url: str, ref: str) -> str:
    """The id of a commit, which is fetched if the repository here lacks it."""
    is_commit = re.fullmatch(r"[0-9a-f]{40}", ref)
    if is_commit and _git(repository, "cat-file", "-e", ref) is not None:
        return ref
    if _git(repository, "fetch", "--quiet", "--depth", "1", url, ref) is None:
        raise UsageError(
            f"{line.text}: git cannot fetch {ref} of {url}",
            hint=f"git ls-remote {url}   # shows why; a commit needs its 40 digits",
        )
    return (_git(repository, "rev-parse", "FETCH_HEAD^{commit}") or "").strip()


def _new_repository(folder: Path) -> None:
    if _git(folder, "init", "--quiet", "--bare", "--template=") is None:
        raise RailheadError("git does not work on this computer", hint="git --version")


def _write(repository: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    arguments = (f"--work-tree={folder}", "checkout", "--quiet", "--force", commit, "--", ".")
    if _git(repository, *arguments) is None:
        raise RailheadError(f"git cannot write the files of {commit} to {folder}", hint="df -h")


def _git(repository: Path, *arguments: str) -> str | None:
    more = {name: os.environ[name] for name in FOR_FETCH if name in os.environ}
    more |= {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    return git(repository, *arguments, settings=FETCHES, seconds=SECONDS, more=more)
