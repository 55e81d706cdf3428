"""Builds and tests a Horovod wheel on this computer, for its own system: `fab wheel`.

The wheel is stored where `fab bootstrap` looks for the wheel of hosts with this system and Python.
It is rebuilt only when one of its inputs changes. One for GPUs is built and tested without a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..console import log
from ..console.output import print_lines
from ..errors import RailheadError, UsageError
from ..facts import host as fact
from ..facts.fatbin import codes
from ..facts.host import HostFacts
from ..host.base import locks
from ..inventory import caches
from ..inventory.files import atomic_write
from ..plan import runtimes
from ..plan.runtimes import ROWS, Environment, Runtime, row_named
from . import uv
from .wheel_store import folder_of_built_here, local_wheel

TRIED = "tried.json"
MINUTES = "a minute or more"  # of a build; 85 to 104 CPU seconds were measured
PROMISED = frozenset({"sm_70", "sm_75", "sm_80"})  # V100; T4; A100, and with it A10G and L4


def facts_here() -> HostFacts:
    """The facts of this computer, read with the same script as those of a host."""
    argv = ["sh", "-c", fact.script()]
    process = log.run(argv, env=os.environ, cwd="/", capture_output=True)
    return fact.parse(process.stdout)


def environment_here(
    facts: HostFacts, *, gpu: bool = False, name: str | None = None, python: str | None = None
) -> Environment:
    """A runtime with Horovod on a Python of this computer: the preferred one, unless `name` is a
    runtime's and `python` a Python's, such as 3.12. UsageError: no runtime is locked for this
    computer or this Python."""
    if facts.arch != "x86_64":
        raise UsageError(f"this computer is {facts.arch}: the runtimes are locked for x86_64 only")
    rows = [row_named(name, "horovod")] if name else [r for r in ROWS.values() if r.horovod]
    for row in rows:
        for version in row.pythons:
            if version in facts.pythons and python in (None, version):
                return Environment(Runtime(row, gpu), version, "on this computer")
    locked = "; ".join(f"{row.name} is for Python {', '.join(row.pythons)}" for row in rows)
    requested = f"Python {python}" if python else "the Pythons of this computer"
    has = ", ".join(sorted(facts.pythons)) or "none"
    raise UsageError(f"no runtime for {requested}: {locked}; this computer has {has}")


def make(environment: Environment, facts: HostFacts) -> Path:
    """The wheel; built if it is missing and tested if it is untested.

    Raises:
        UsageError: a system package is missing.
        RailheadError: a download, the build or the test failed.
    """
    stored = folder_of_built_here(environment, facts)
    if wheel := tried(stored):
        return wheel
    refuse_missing(facts)
    with alone(caches.cache("building") / stored.name) as folder:
        if wheel := tried(stored):  # another process built it while we waited
            return wheel
        started = time.monotonic()
        lock = folder / "lock.txt"
        lock.write_text(for_building(environment.runtime.lock.read_text()))
        install(folder / "env", facts.pythons[environment.python], lock)
        fetched = time.monotonic()
        wheel = next(stored.glob("horovod-*.whl"), None) or build(folder, environment)
        result = {"tried": attempt(folder, wheel, environment)}
        architectures = sorted(gpus_in(wheel)) if environment.runtime.gpu else []
        seconds = {"fetched": fetched - started, "built": time.monotonic() - fetched}
        rounded = {name: round(value) for name, value in seconds.items()}
        return keep(wheel, stored, {**result, "codes": architectures, "seconds": rounded})


def tried(stored: Path) -> Path | None:
    """The wheel in this folder that was tested; None if there is none, or it was moved."""
    return next(stored.glob("horovod-*.whl"), None) if (stored / TRIED).exists() else None


def is_built_here(environment: Environment, facts: HostFacts) -> bool:
    """Whether a wheel of this computer for its own system exists."""
    return local_wheel(folder_of_built_here(environment, facts)) is not None


def result_of(wheel: Path) -> str:
    """The result of the test of a wheel that `make` returned, as text."""
    result = json.loads((wheel.parent / TRIED).read_text())
    architectures = ", ".join(result["codes"])
    return f"{result['tried']}; code for {architectures}" if architectures else result["tried"]


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """An empty folder for one process at a time; removes the files of a killed process."""
    with locks.wait_lock(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def refuse_missing(facts: HostFacts) -> None:
    """UsageError with the install command if the build lacks system packages."""
    if parts := runtimes.missing_parts(facts, chief=False, builds=True):
        packages = " ".join(sorted(set(parts.values())))
        raise UsageError(
            f"missing here, to build Horovod: {', '.join(parts)}",
            hint=f"sudo apt-get install -y --no-install-recommends {packages}",
        )


def for_building(lock: str) -> str:
    """A runtime's lock without NVIDIA's libraries: less than half of the download. The build and
    the test on the CPU need only NCCL, which includes its headers."""
    entries = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)
    return "".join(x for x in entries if not x.startswith("nvidia-") or x.startswith("nvidia-nccl"))


def install(folder: Path, python: str, lock: Path) -> None:
    """Create an environment with exactly the packages of a lock. RailheadError: a download failed;
    the hint names what this computer must reach."""
    uv_cache = {"UV_CACHE_DIR": str(caches.cache("uv"))}
    print_lines(f"installing {lock.name} into {folder}")
    try:
        _output(uv.environment(folder, python, lock, uv_cache))
    except RailheadError as error:
        raise RailheadError(
            f"the runtime was not installed: {error.message}",
            hint="let this computer reach the package index and, to build for GPUs without a CUDA"
            " 12 toolkit, Debian's archive",
        ) from None


def build(folder: Path, environment: Environment) -> Path:
    """Build the wheel with the script that hosts use; its output goes to stdout."""
    for path in environment.runtime.recipe:
        shutil.copy(path, folder)
    argv = ["sh", "horovod.sh", str(folder / "env"), str(folder / "out"), "horovod.txt"]
    if log.run(argv, env=os.environ, cwd=folder).returncode:
        raise RailheadError("the Horovod wheel was not built; the reason is above")
    return next((folder / "out").glob("horovod-*.whl"))


def attempt(folder: Path, wheel: Path, environment: Environment) -> str:
    """Install the wheel and run two ranks on the CPU; returns the last line of their output."""
    install_wheel(folder / "env", wheel)
    argv = [*runtimes.TRY_WHEEL, str(folder / "env" / "bin" / "python")]
    argv += [str(runtimes.PROBES / "try_wheel.py"), *environment.runtime.parts]
    return run(argv, runtimes.TRY_VARIABLES).strip().splitlines()[-1]


def install_wheel(environment: Path, wheel: Path) -> None:
    """Install the Horovod wheel into an environment; nothing of it stays in uv's cache."""
    into = ["--python", str(environment / "bin" / "python")]
    _output(uv.pip("install", "--no-cache", "--no-deps", *into, str(wheel)))


def gpus_in(wheel: Path) -> frozenset[str]:
    """The GPU architectures that the wheel has code for; RailheadError if one is missing."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.startswith("horovod/tensorflow/mpi_lib")]
        architectures = codes(files.read(name))
    if absent := sorted(PROMISED - architectures):
        raise RailheadError(f"the wheel has no code for {', '.join(absent)}")
    return architectures


def keep(wheel: Path, folder: Path, result: Mapping[str, object]) -> Path:
    """Store the wheel in `folder`; writes the test result last."""
    if wheel.parent != folder:
        atomic_write(folder / wheel.name, wheel.read_bytes())
    atomic_write(folder / TRIED, json.dumps(result, indent=2) + "\n")
    return folder / wheel.name


def run(argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """The stdout of a command; RailheadError with the last lines of its output if it fails."""
    environment = {**os.environ, **uv.ENVIRONMENT, **(variables or {})}
    return _output(log.run(argv, env=environment, cwd="/", capture_output=True))


def _output(process: subprocess.CompletedProcess[str]) -> str:
    if process.returncode:
        tail = "\n".join([*process.stdout.splitlines(), *process.stderr.splitlines()][-12:])
        name = Path(process.args[0]).name
        raise RailheadError(f"{name} ended with {process.returncode}\n{tail}")
    return process.stdout
