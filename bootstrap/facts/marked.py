"""Finds processes that an environment variable marks as ours, in at most two searches of /proc.

Children inherit this variable: a run may have hundreds of processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.names import is_name

HOME = "RAILHEAD_HOME"
# root can also read the environment of other users, who can set any variable: only this user's
# processes count. A newline in a value becomes a space, so each line is one variable.
_SEARCH = """printf '%s\\n' "$HOME"; set --
for f in $(grep -lsaE '(NAMES)=' /proc/[0-9]*/environ); do
  [ -O "${f%/environ}" ] && set -- "$@" "$f"
done
[ "$#" = 0 ] || grep -HsazE '^(NAMES|RAILHEAD_HOME)=' "$@" | tr '\\n\\0' ' \\n'"""
_LINE = re.compile("/proc/([0-9]+)/environ:([A-Z_]+)=(.*)")


@dataclass(frozen=True)
class RunProcess:
    """A process of one of our runs, recognised by its environment."""

    pid: int
    run_id: str
    home: str


def search(names: Sequence[str]) -> str:
    """POSIX sh that prints these variables of all processes of this user."""
    return _SEARCH.replace("NAMES", "|".join(names))


def processes(out: str, name: str) -> tuple[RunProcess, ...]:
    """The processes of this home that have this variable; its value is an id. Any process may set
    it, so a value that is not a valid name is ignored."""
    home, *variables = out.lstrip("\n").split("\n")
    return tuple(
        RunProcess(pid, has[name], home)
        for pid, has in _by_process(variables)
        if has.get(HOME) == home and is_name(has.get(name, ""))
    )


def _by_process(variables: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Each process and its variables. If a variable occurs twice, the first counts, as for the
    process itself."""
    processes: dict[int, dict[str, str]] = {}
    for match in filter(None, map(_LINE.fullmatch, variables)):
        processes.setdefault(int(match[1]), {}).setdefault(match[2], match[3])
    yield from processes.items()
