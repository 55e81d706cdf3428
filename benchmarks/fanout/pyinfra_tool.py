"""pyinfra in a separate environment, from its lock."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peer import environment

LOCK = Path(__file__).parents[2] / "locks" / "bench.txt"


def installed() -> Path:
    """The path of its command."""
    install = ["--require-hashes", "-r", str(LOCK)]
    return environment(LOCK.read_bytes(), install) / "bin" / "pyinfra"
