"""Environments of peers: each is installed once and kept by the digest of what it is made of."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.inventory.caches import cache


def environment(content: bytes, install: Sequence[str]) -> Path:
    """The folder of an environment in which `uv pip install` got these arguments; `content` is
    what they depend on besides."""
    parts = [content, sys.version.encode(), *map(str.encode, install)]
    folder = cache("bench") / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    done = folder / ".ok"
    if not done.exists():
        uv = str(Path(sys.executable).with_name("uv"))
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        subprocess.run(make, check=True)
        python = str(folder / "bin" / "python")
        begin = [uv, "pip", "install", "--quiet", "--python", python]
        subprocess.run([*begin, *install], check=True)
        done.touch()
    return folder
