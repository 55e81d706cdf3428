"""Runtimes are data: rows of locked environments, what is in them and what names one on a host.

A runtime lives on a host under ~/.railhead/envs/<digest>; the digest covers all that is in it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bootstrap.console import log
from bootstrap.errors import UsageError
from bootstrap.facts.host import HostFacts

REPO = Path(__file__).resolve().parents[2]
LOCKS = REPO / "locks"
SCRIPTS = Path(__file__).parents[1] / "remote/scripts"
PROBES = Path(__file__).parents[1] / "remote/probes"
# A sum over two ranks of one host, whatever it has: `python`, try_wheel.py and parts follow.
TRY_WHEEL = ("mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none")
TRY_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# What cuda.sh fetches where a host has no toolkit: nvcc out of a package of Debian's, which is
# unpacked on any system, and headers.
CUDA_MEGABYTES = 117
CUDA_LOCKS = ("cuda-headers.txt", "cuda-parts.txt")
PACKAGES = {  # what Debian and Ubuntu call the system parts
    "mpirun": "openmpi-bin",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "g++": "g++",
    "cmake": "cmake",
    "make": "make",
    "mpi.h": "libopenmpi-dev",
}
BUILD_TOOLS = ("g++", "cmake", "make", "mpi.h")
# The series that apt brings on Debian 12 and Ubuntu 22.04 and 24.04, for hosts without one yet.
OPENMPI_OF_APT = "4"


@dataclass(frozen=True)
class Row:
    """One row of the table, by the name that --runtime takes. `pythons` are those that it is
    locked for, the first choice first."""

    name: str
    tensorflow: str
    horovod: bool
    pythons: tuple[str, ...]

    def serves(self, launcher: str | None) -> bool:
        """Whether a launcher finds here what it needs; None stands for all of them."""
        return self.horovod or launcher == "tensorflow"


ROWS = {
    row.name: row
    for row in (  # in the order of preference
        Row("tf2.18", "2.18.1", horovod=True, pythons=("3.11", "3.12", "3.10")),
        Row("tf2.21", "2.21.0", horovod=False, pythons=("3.11", "3.12", "3.10", "3.13")),
    )
}


@dataclass(frozen=True)
class Runtime:
    """A row for hosts with GPUs or for hosts without."""

    row: Row
    gpu: bool

    @property
    def name(self) -> str:
        """What its lock is called: tf2.18-cpu."""
        return f"{self.row.name}-{'gpu' if self.gpu else 'cpu'}"

    @property
    def tensorflow(self) -> str:
        """The version of TensorFlow."""
        return self.row.tensorflow

    @property
    def horovod(self) -> bool:
        """Whether Horovod is built for it."""
        return self.row.horovod

    @property
    def parts(self) -> tuple[str, ...]:
        """What its Horovod is built with."""
        return ("mpi", "gloo", "nccl") if self.gpu else ("mpi", "gloo")

    @property
    def recipe(self) -> tuple[Path, ...]:
        """All that decides how Horovod is built for it, the script first; nothing without."""
        if not self.horovod:
            return ()
        files = (SCRIPTS / "horovod.sh", PROBES / "try_wheel.py", LOCKS / "horovod.txt")
        cuda = (SCRIPTS / "cuda.sh", *(LOCKS / name for name in CUDA_LOCKS))
        return files + cuda if self.gpu else files

    @property
    def lock(self) -> Path:
        """The locked requirements."""
        return LOCKS / f"runtime-{self.name}.txt"

    @property
    def override(self) -> str:
        """What keeps the other build of TensorFlow out when more packages are resolved with it."""
        return "" if self.gpu else "tensorflow ; sys_platform == 'never'"


RUNTIMES = {
    runtime.name: runtime
    for runtime in (Runtime(row, gpu) for row in ROWS.values() for gpu in (False, True))
}


@dataclass(frozen=True)
class Environment:
    """A runtime on one Python, perhaps with packages of the user's (`extra`, a locked text)."""

    runtime: Runtime
    python: str
    why: str
    extra: str = ""

    @cached_property
    def digest(self) -> str:
        """Names the environment on a host: 16 hex digits over all that goes into it."""
        parts = [self.runtime.name, self.python, self.runtime.lock.read_text(), self.extra]
        parts += [path.read_text() for path in self.runtime.recipe]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def folder(self) -> str:
        """Where it lives on a host."""
        return f"~/.railhead/envs/{self.digest}"

    @property
    def megabytes(self) -> int:
        """What the lock fetches, in MB, as it was measured when the lock was made."""
        return fetched(self.runtime.lock, self.python)

    def wheel_key(self, builder: HostFacts) -> str:
        """Names a Horovod wheel: it fits one system image, Python, TensorFlow and OpenMPI."""
        mpi = (builder.openmpi or OPENMPI_OF_APT).split(".")[0]
        parts = [builder.os, builder.arch, self.python, self.runtime.tensorflow, mpi]
        parts += [path.read_text() for path in self.runtime.recipe]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BucketClient:
    """The environment on the chief that writes to the stack's bucket, on one Python."""

    python: str

    @property
    def lock(self) -> Path:
        """The locked requirements."""
        return LOCKS / "bucket.txt"

    @cached_property
    def digest(self) -> str:
        """Names the environment on a host."""
        parts = ["bucket", self.python, self.lock.read_text()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def folder(self) -> str:
        """Where it lives on a host."""
        return f"~/.railhead/envs/{self.digest}"

    @property
    def megabytes(self) -> int:
        """What the lock fetches, in MB."""
        return fetched(self.lock, self.python)


def uv_digest() -> str:
    """Names the uv binary on a host."""
    return hashlib.sha256((LOCKS / "uv.txt").read_bytes()).hexdigest()[:16]


def fetched(lock: Path, python: str) -> int:
    """What a lock fetches on one Python, in MB, as it was measured when the lock was made."""
    header = lock.read_text().splitlines()[0]
    match = re.search(rf"\b{re.escape(python)} (\d+) MB", header)
    return int(match[1]) if match else 0


def row_named(name: str, launcher: str | None) -> Row:
    """The row that --runtime names, if the launcher finds there what it needs.

    Raises:
        UsageError: no row is called so, or it has no Horovod and the launcher needs it.
    """
    if name not in ROWS:
        raise UsageError(f"runtime {name!r}: one of {', '.join(ROWS)}")
    if launcher and not ROWS[name].serves(launcher):
        able = ", ".join(row.name for row in ROWS.values() if row.serves(launcher))
        raise UsageError(
            f"runtime {name} has no Horovod, which launcher {launcher} needs; it is in {able}",
            hint=f"--runtime {able}   # or: --launcher tensorflow",
        )
    return ROWS[name]


def resolve_extra(environment: Environment, requirements: Path, uv: str) -> str:
    """Lock the user's requirements together with the runtime's pins; returns the locked text.

    Raises:
        UsageError: the file is missing, or cannot be had beside the runtime; uv's words say why.
    """
    if not requirements.is_file():
        raise UsageError(f"--requirements {requirements}: there is no such file")
    runtime = environment.runtime
    argv = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-emit-index-url"]
    argv += ["--no-header", "--no-annotate", "--python-version", environment.python]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
    argv += ["--constraints", str(runtime.lock), str(requirements)]
    if runtime.override:
        argv += ["--overrides", "-"]
    done = log.run(argv, input=runtime.override, capture_output=True)
    if done.returncode:
        tail = "\n  ".join(done.stderr.strip().splitlines()[-8:])
        raise UsageError(
            f"{requirements} does not go together with runtime {runtime.name}:\n  {tail}",
            hint=f"loosen the versions in {requirements.name}; the pins are in {runtime.lock}",
        )
    return done.stdout


def missing_parts(facts: HostFacts, *, chief: bool, builds: bool) -> dict[str, str]:
    """System parts that a host lacks, and the package of each: {"mpirun": "openmpi-bin"}."""
    needed = ["mpirun"]
    if chief:
        needed += ["ssh", "ssh-keygen"]
    if builds:
        needed += BUILD_TOOLS
    have = set(facts.tools) | ({"mpi.h"} if facts.mpi_headers else set())
    return {part: PACKAGES[part] for part in needed if part not in have}
