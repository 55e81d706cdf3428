"""Runs a system command; returns its output, or raises an error with it."""

from __future__ import annotations

import os
import subprocess

# Some users' PATH lacks the folders where `ip`, `nft` and `debootstrap` are.
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


class CommandFailed(Exception):
    """The exit code of a command is not 0."""


def run(*argv: str, stdin: str = "", check: bool = True) -> str:
    """Return stdout; raise CommandFailed with stderr's end unless `check` is off."""
    done = subprocess.run(
        argv,
        input=stdin,
        text=True,
        capture_output=True,
        errors="replace",
        env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
    )
    if check and done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-2000:]
        raise CommandFailed(f"{' '.join(argv)}: exit {done.returncode}: {output}")
    return done.stdout
