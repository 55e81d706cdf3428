"""Detects another login of a cloud's SDK: until then its session is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path


def state(
    prefixes: tuple[str, ...], files_of: Callable[[Mapping[str, str]], tuple[Path, ...]]
) -> tuple[object, ...]:
    """What changes with another user, profile or login: the variables with these prefixes, and the
    times of the SDK's files. `files_of`: their paths, from these variables."""
    variables = {key: value for key, value in os.environ.items() if key.startswith(prefixes)}
    files = files_of(variables)
    times = [file.stat().st_mtime_ns for file in files if file.is_file()]
    return (*files, *variables.items(), *times)
