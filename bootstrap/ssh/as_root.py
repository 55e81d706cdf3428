"""Run a script on a host as root: directly as root, or through sudo without a password."""

from __future__ import annotations

import shlex

from ..errors import RailheadError
from .session import Session

_SUDO = 'r=; [ "$(id -u)" = 0 ] || r="sudo -n"; $r'


def as_root(script: str) -> str:
    """The shell command that runs a POSIX sh script as root, with stderr in stdout.

    Its stdin is /dev/null: after the command, its channel carries other data.
    """
    return f"{_SUDO} sh -c {shlex.quote(script)} </dev/null 2>&1"


def run_as_root(session: Session, script: str, *, silence: float | None = None) -> str:
    """Run a script on a host as root and return its output without empty lines.

    Raises:
        RailheadError: it failed; the message is its last line of output, or its exit code.
        ConnectionLost: nothing came for `silence` seconds.
    """
    output, code = session.shell(as_root(script), silence=silence)
    lines = [line for line in output if line]
    if code:
        raise RailheadError(lines[-1] if lines else f"exit code {code}")
    return "\n".join(lines)
