"""Runs git in the repository of a program. Somebody else may have written the configuration there,
so no program that it names is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..console import log

SECONDS = 5.0  # to look for changes in a large repository


def git(
    folder: Path,
    *arguments: str,
    settings: Sequence[str] = (),
    seconds: float = SECONDS,
    more: Mapping[str, str] = {},
) -> str | None:
    """What git prints; None if it fails. It fetches nothing unless `settings` let it; `more` are
    additional environment variables."""
    keys = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", *settings]
    argv = ["git", "--no-optional-locks", *(word for key in keys for word in ("-c", key))]
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "XDG_CONFIG_HOME")}
    try:
        process = log.run(
            [*argv, "-C", str(folder), *arguments],
            env={**environment, **more},
            cwd="/",
            capture_output=True,
            errors="surrogateescape",  # of names of files
            timeout=seconds,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 else None
