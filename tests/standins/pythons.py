"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

REAL_HOME = Path.home()  # before a test gets its own


@cache
def python_here(version: str) -> str | None:
    """The path of this Python, if it is on this machine and runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or REAL_HOME / ".pyenv").glob(f"versions/{version}.*")
    names = [shutil.which(f"python{version}"), *(str(path / "bin/python") for path in pyenv)]
    code = (
        "import sys; print(sys.executable); sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"
    )
    for name in filter(None, names):  # a name on PATH may be a shim that does not run
        process = subprocess.run([name, "-c", code, version], capture_output=True, text=True)
        if process.returncode == 0:
            return process.stdout.strip()
    return None
