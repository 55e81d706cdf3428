"""Python environments on this computer for single tools, each created by uv from its lock."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

from ..errors import RailheadError, UsageError
from ..inventory import caches, local_state
from ..plan.runtimes import LOCKS
from ..ssh.bundle import PACKAGES
from . import uv

RUNTIME = "runtime-tf2.18-cpu"


def runtime_here(otherwise: str = "the same command without --here") -> Path:
    """The Python of a runtime on this computer, created when it is missing. `otherwise` is what to
    type instead if no runtime is locked.

    Raises:
        UsageError: no runtime is locked for this computer.
        RailheadError: it could not be created; the message has uv's output.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise UsageError(
            f"the runtimes are for Linux on x86_64, not {platform.system()} {platform.machine()}",
            hint=otherwise,
        )
    return python_of(RUNTIME)


def python_of(name: str) -> Path:
    """The Python of the environment of `locks/NAME.txt`, created when it is missing. RailheadError:
    it could not be created; the message has uv's output."""
    folder = local_state.filled_once(
        environment_folder(name), lambda partial: _create(partial, _lock(name))
    )
    return folder / "bin" / "python"


def variables_here(ours: str) -> dict[str, str]:
    """The environment variables for a program in such an environment: this process's, but none that
    begins with `ours` or changes Python, TensorFlow or Open MPI. Keras writes into our folder,
    unless the user has ~/.keras: otherwise importing TensorFlow would create that."""
    dropped = (ours, "PYTHON", "TF_CONFIG", "OMPI_")
    variables = {n: value for n, value in os.environ.items() if not n.startswith(dropped)}
    if not (Path.home() / ".keras").is_dir():
        variables.setdefault("KERAS_HOME", str(local_state.home() / "keras"))
    return {**variables, "PYTHONPATH": str(PACKAGES)}  # a copy of `training` imports our documents


def environment_folder(name: str) -> Path:
    """The folder of that environment: another lock or Python of this computer has another one."""
    content = _lock(name).read_text() + sys.version + sys.prefix
    return caches.cache(name) / hashlib.sha256(content.encode()).hexdigest()[:16]


def _lock(name: str) -> Path:
    return LOCKS / f"{name}.txt"


def _create(folder: Path, lock: Path) -> None:
    """Create the environment. It is moved afterwards, so only its Python works, not its scripts."""
    process = uv.environment(folder, sys.executable, lock)
    if process.returncode:
        tail = "\n  ".join(process.stderr.strip().splitlines()[-8:])
        raise RailheadError(
            f"the environment of {lock.name} could not be created here:\n  {tail}",
            hint="the same command again, where the package index can be reached",
        )
