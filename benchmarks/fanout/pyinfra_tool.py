"""pyinfra in a separate environment, installed once from its lock and cached by its digest."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from bootstrap.inventory.local_state import cache

LOCK = Path(__file__).parents[2] / "locks" / "bench.txt"


def installed() -> Path:
    """The path of its command; made ready first if this lock was not installed here before."""
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache("bench") / digest
    done = folder / ".ok"
    if not done.exists():
        _install(folder)
        done.touch()
    return folder / "bin" / "pyinfra"


def _install(folder: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
    subprocess.run(make, check=True)
    python = str(folder / "bin" / "python")
    install = [str(uv), "pip", "install", "--quiet", "--python", python]
    subprocess.run([*install, "--require-hashes", "-r", str(LOCK)], check=True)
