"""Runtimes are data: locked environments, which one serves these hosts, and what names it.

A runtime lives on a host under ~/.railhead/envs/<digest>; the digest covers all that is in it.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bootstrap.errors import UsageError
from bootstrap.facts import HostFacts

REPO = Path(__file__).resolve().parent.parent
LOCKS = REPO / "locks"
BUILD_HOROVOD = Path(__file__).parent / "remote" / "horovod.sh"
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
class Runtime:
    """One row of the table: a lock, made for `arch`, and whether it drives GPUs."""

    name: str
    tensorflow: str
    gpu: bool
    arch: str = "x86_64"

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
    for runtime in (
        Runtime("tf2.18-cpu", tensorflow="2.18.1", gpu=False),
        Runtime("tf2.18-gpu", tensorflow="2.18.1", gpu=True),
    )
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
        parts += [(LOCKS / "horovod.txt").read_text(), BUILD_HOROVOD.read_text()]
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
        parts += [(LOCKS / "horovod.txt").read_text(), BUILD_HOROVOD.read_text()]
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


def fetched(lock: Path, python: str) -> int:
    """What a lock fetches on one Python, in MB, as it was measured when the lock was made."""
    header = lock.read_text().splitlines()[0]
    match = re.search(rf"\b{re.escape(python)} (\d+) MB", header)
    return int(match[1]) if match else 0


def choose_runtime(facts: Mapping[str, HostFacts]) -> tuple[Runtime, str]:
    """The runtime that serves all hosts, and why.

    Raises:
        UsageError: a host has an architecture that no runtime is locked for, or only some of
            the hosts have GPUs.
    """
    for name, host in facts.items():
        if host.arch != "x86_64":
            raise UsageError(f"{name} is {host.arch}: the runtimes are locked for x86_64 alone")
    with_gpu = [name for name, host in facts.items() if host.gpus]
    if with_gpu and len(with_gpu) < len(facts):
        without = ", ".join(name for name in facts if name not in with_gpu)
        raise UsageError(f"GPUs on {', '.join(with_gpu)} but none on {without}: name one kind only")
    if with_gpu:
        return RUNTIMES["tf2.18-gpu"], f"GPUs: {facts[with_gpu[0]].gpus[0]}"
    return RUNTIMES["tf2.18-cpu"], "no GPU on any host"


def resolve_extra(runtime: Runtime, python: str, requirements: Path, uv: str) -> str:
    """Lock the user's requirements together with the runtime's pins; returns the locked text.

    Raises:
        UsageError: the file is missing, or cannot be had beside the runtime; uv's words say why.
    """
    if not requirements.is_file():
        raise UsageError(f"--requirements {requirements}: there is no such file")
    argv = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-emit-index-url"]
    argv += ["--no-header", "--no-annotate", "--python-version", python]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
    argv += ["--constraints", str(runtime.lock), str(requirements)]
    if runtime.override:
        argv += ["--overrides", "-"]
    done = subprocess.run(argv, input=runtime.override, capture_output=True, text=True)
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
