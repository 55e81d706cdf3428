"""The git commit of a program, for the report of its runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SECONDS = 5.0  # a large repository is looked at for changes
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?(-dirty)?")


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out where the folder is, with `-dirty` if tracked files differ
    from it; None outside a repository, or where git does not answer."""
    argv = ["git", "-c", "core.fsmonitor=false", "-C", str(folder)]
    argv += ["describe", "--always", "--abbrev=64", "--exclude=*", "--dirty"]
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    commit = process.stdout.strip()
    return commit if process.returncode == 0 and _COMMIT.fullmatch(commit) else None
