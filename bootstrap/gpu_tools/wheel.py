"""`make gpu-wheel`: builds and tests the Horovod wheel for GPUs here, with or without a GPU.

The wheel is stored where `fab bootstrap` looks for the wheel of hosts with this system and Python.
It is rebuilt only when one of its inputs changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import RailheadError, UsageError
from ..facts import host as fact
from ..facts.host import HostFacts
from ..inventory import local_state
from ..inventory.files import atomic_write
from ..plan import runtimes
from ..plan.runtimes import ROWS, Environment, Runtime
from ..provision import uv
from ..provision.wheel_store import folder_of_built_here
from .fatbin import codes

TRIED = "tried.json"
PROMISED = frozenset({"sm_70", "sm_75", "sm_80"})  # V100; T4; A100, and with it A10G and L4
HERE = "this machine"


def main(facts: HostFacts | None = None) -> int:
    """Make the wheel unless it exists; on an error, prints it to stderr and returns its code.

    Args:
        facts: those of this machine; None: read them.
    """
    try:
        facts = facts or facts_here()
        wheel = make(environment_for(facts), facts)
        result = json.loads((wheel.parent / TRIED).read_text())
        print(f"{wheel}\n{result['tried']}; code for {', '.join(result['codes'])}")
    except RailheadError as error:
        print(f"gpu-wheel: {error}", file=sys.stderr)
        return error.code
    return 0


def facts_here() -> HostFacts:
    """The facts of this machine, read with the same script as those of a host."""
    process = subprocess.run(["sh", "-c", fact.script()], capture_output=True, text=True)
    return fact.parse(process.stdout)


def environment_for(facts: HostFacts) -> Environment:
    """The GPU runtime with Horovod, on a Python of this machine."""
    if facts.arch != "x86_64":
        raise UsageError(f"{HERE} is {facts.arch}: the runtimes are locked for x86_64 only")
    row = next(row for row in ROWS.values() if row.horovod)
    python = fact.common_python({HERE: facts}, row.pythons)
    return Environment(Runtime(row, gpu=True), python, "as on hosts with GPUs")


def make(environment: Environment, facts: HostFacts) -> Path:
    """The wheel; built if it is missing and tested if it is untested.

    Raises:
        UsageError: a system package is missing.
        RailheadError: a download, the build or the test failed.
    """
    stored = folder_of_built_here(environment, facts)
    if (stored / TRIED).exists():
        return next(stored.glob("horovod-*.whl"))
    refuse_missing(facts)
    with alone(local_state.cache("building") / stored.name) as folder:
        if (stored / TRIED).exists():  # another process built it while we waited
            return next(stored.glob("horovod-*.whl"))
        started = time.monotonic()
        lock = folder / "lock.txt"
        lock.write_text(for_building(environment.runtime.lock.read_text()))
        install(folder / "env", facts.pythons[environment.python], lock)
        fetched = time.monotonic()
        wheel = next(stored.glob("horovod-*.whl"), None) or build(folder, environment)
        result = {"tried": attempt(folder, wheel, environment), "codes": sorted(gpus_in(wheel))}
        seconds = {"fetched": fetched - started, "built": time.monotonic() - fetched}
        return keep(wheel, stored, result | {"seconds": {k: round(v) for k, v in seconds.items()}})


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """An empty folder for one process at a time; removes the files of a killed process."""
    with local_state.alone(folder.with_suffix(".lock")):
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
    """A runtime's lock without NVIDIA's libraries: 891 MB instead of 2517 MB. The build and the
    test on the CPU need only NCCL, which includes its headers."""
    entries = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)
    return "".join(x for x in entries if not x.startswith("nvidia-") or x.startswith("nvidia-nccl"))


def install(folder: Path, python: str, lock: Path) -> None:
    """Create an environment with exactly the packages of a lock.

    Raises:
        RailheadError: a download failed; the hint names what this machine must reach.
    """
    caches = {"UV_CACHE_DIR": str(local_state.cache("uv"))}
    run([uv.local_uv(), "venv", "--quiet", "--python", python, str(folder)], caches)
    sync = [uv.local_uv(), "pip", "sync", "--quiet", "--require-hashes", "--python"]
    sync += [str(folder / "bin" / "python"), str(lock)]
    print(f"installing {lock.name} into {folder}", flush=True)
    try:
        run(sync, caches)
    except RailheadError as error:
        raise RailheadError(
            f"the runtime was not installed: {error.message}",
            hint="let this machine reach the package index: 891 MB are fetched for the wheel, "
            "117 MB for nvcc from Debian's archive, and 2517 MB for make gpu-check",
        ) from None


def build(folder: Path, environment: Environment) -> Path:
    """Build the wheel with the script that hosts use; its output goes to stdout."""
    for path in environment.runtime.recipe:
        shutil.copy(path, folder)
    argv = ["sh", "horovod.sh", str(folder / "env"), str(folder / "out"), "horovod.txt"]
    if subprocess.run(argv, cwd=folder).returncode:
        raise RailheadError("the Horovod wheel for GPUs was not built; its output is above")
    return next((folder / "out").glob("horovod-*.whl"))


def attempt(folder: Path, wheel: Path, environment: Environment) -> str:
    """Install the wheel and run two ranks on the CPU; returns the last line of their output."""
    install_wheel(folder / "env", wheel)
    argv = [*runtimes.TRY_WHEEL, str(folder / "env" / "bin" / "python")]
    argv += [str(runtimes.PROBES / "try_wheel.py"), *environment.runtime.parts]
    return run(argv, runtimes.TRY_VARIABLES).strip().splitlines()[-1]


def install_wheel(environment: Path, wheel: Path) -> None:
    """Install the Horovod wheel into an environment; nothing of it stays in uv's cache."""
    argv = [uv.local_uv(), "pip", "install", "--no-cache", "--quiet", "--no-deps", "--python"]
    run([*argv, str(environment / "bin" / "python"), str(wheel)])


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
    process = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if process.returncode:
        tail = "\n".join([*process.stdout.splitlines(), *process.stderr.splitlines()][-12:])
        raise RailheadError(f"{Path(argv[0]).name} ended with {process.returncode}\n{tail}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
