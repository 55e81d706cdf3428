"""The table of runtimes: locked environments, their content and their digests.

A runtime is on a host in ~/.railhead/envs/<digest>; the digest covers its complete content.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..errors import UsageError
from ..facts.gpu import TOO_OLD
from ..facts.host import HostFacts, common_python
from . import open_mpi

REPO = Path(__file__).resolve().parents[2]
LOCKS = REPO / "locks"
SCRIPTS = Path(__file__).parents[1] / "host/scripts"
PROBES = Path(__file__).parents[1] / "host/probes"
# The start of a command that sums over two ranks on one host, even on one core; Python,
# try_wheel.py and the parts follow.
TRY_WHEEL = ("mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none")
TRY_VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# What cuda.sh downloads for a host without a CUDA toolkit: headers, and nvcc from a Debian package,
# which it unpacks on any system.
CUDA_MEGABYTES = 117
CUDA_LOCKS = ("cuda-headers.txt", "cuda-parts.txt")
PACKAGES = {  # the Debian and Ubuntu packages of the system parts
    "mpirun": "openmpi-bin",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "g++": "g++",
    "mpi.h": "libopenmpi-dev",
}
BUILD_TOOLS = ("g++", "mpi.h")


@dataclass(frozen=True)
class Framework:
    """A framework of runtimes: its module, its packages for hosts without and with GPUs, and a
    Python statement that fails if they do not work."""

    title: str
    module: str
    cpu: str
    gpu: str
    imports: str


TENSORFLOW = Framework(
    *("TensorFlow", "tensorflow", "tensorflow-cpu", "tensorflow[and-cuda]"),
    imports="import tensorflow, keras, tf_keras",
)
JAX = Framework(
    *("JAX", "jax", "jax", "jax[cuda12]"),
    imports="import os; os.environ['KERAS_BACKEND'] = 'jax'; import jax, keras",
)
TORCH = Framework(
    *("PyTorch", "torch", "torch", "torch"),
    imports="import os; os.environ['KERAS_BACKEND'] = 'torch'; import torch, keras",
)


@dataclass(frozen=True)
class RuntimeRow:
    """One row of the table; --runtime takes its name. `pythons`: the versions that it is locked
    for, the preferred one first. `limits`: version limits for packages of --requirements that would
    otherwise be resolved to versions that fail with the runtime's. `launchers`: the launchers that
    it serves. `version`: of its framework."""

    name: str
    version: str
    pythons: tuple[str, ...]
    limits: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ("horovod", "tensorflow")
    framework: Framework = TENSORFLOW

    @property
    def horovod(self) -> bool:
        """Whether Horovod can be built for it."""
        return "horovod" in self.launchers

    def supports(self, launcher: str | None) -> bool:
        """Whether this row serves a launcher; None means the default one, Horovod."""
        return (launcher or "horovod") in self.launchers


ROWS = {
    row.name: row
    for row in (  # in the order of preference
        RuntimeRow(
            *("tf2.18", "2.18.1"),
            pythons=("3.11", "3.12", "3.10"),
            # It has protobuf 5, which TensorFlow 2.18 needs. tensorflow-metadata 1.21, which
            # tensorflow-datasets requires, accepts protobuf 5 but can be imported only with 6.
            limits=("tensorflow-metadata<1.18",),
        ),
        RuntimeRow("tf2.21", "2.21.0", pythons=("3.11", "3.12", "3.10", "3.13")),
        RuntimeRow(
            *("jax0.6", "0.6.2"),
            pythons=("3.11", "3.12", "3.10", "3.13"),
            launchers=("jax",),
            framework=JAX,
        ),
        RuntimeRow(
            *("torch2.10", "2.10.0"),
            pythons=("3.11", "3.12", "3.10", "3.13"),
            launchers=("torch",),
            framework=TORCH,
        ),
    )
}


@dataclass(frozen=True)
class Runtime:
    """A row for hosts with GPUs or for hosts without GPUs."""

    row: RuntimeRow
    gpu: bool

    @property
    def name(self) -> str:
        """The name of its lock: tf2.18-cpu."""
        return f"{self.row.name}-{'gpu' if self.gpu else 'cpu'}"

    @property
    def framework(self) -> Framework:
        """The framework for which its programs are written."""
        return self.row.framework

    @property
    def version(self) -> str:
        """The version of its framework."""
        return self.row.version

    @property
    def requirement(self) -> str:
        """Its framework as a pip requirement."""
        return f"{self.framework.gpu if self.gpu else self.framework.cpu}=={self.version}"

    @property
    def horovod(self) -> bool:
        """Whether Horovod can be built for it."""
        return self.row.horovod

    @property
    def parts(self) -> tuple[str, ...]:
        """The features that its Horovod is built with."""
        return ("mpi", "nccl") if self.gpu else ("mpi",)

    @property
    def recipe(self) -> tuple[Path, ...]:
        """The files that define how Horovod is built for it, the script first; empty without
        Horovod."""
        if not self.horovod:
            return ()
        files = (
            *(SCRIPTS / "horovod.sh", SCRIPTS / "horovod_compile.sh"),
            *(PROBES / "try_wheel.py", LOCKS / "horovod.txt"),
        )
        cuda = (SCRIPTS / "cuda.sh", *(LOCKS / name for name in CUDA_LOCKS))
        return files + cuda if self.gpu else files

    @property
    def lock(self) -> Path:
        """The locked requirements."""
        return LOCKS / f"runtime-{self.name}.txt"


RUNTIMES = {
    runtime.name: runtime
    for runtime in (Runtime(row, gpu) for row in ROWS.values() for gpu in (False, True))
}


class LockedEnvironment(ABC):
    """A Python environment on a host, installed from a lock."""

    python: str

    @property
    @abstractmethod
    def lock(self) -> Path:
        """The locked requirements."""

    @property
    @abstractmethod
    def content(self) -> list[str]:
        """Everything that defines the environment, including the locked text."""

    @cached_property
    def digest(self) -> str:
        """Names the environment on a host: 16 hex digits over its content."""
        return hashlib.sha256("\0".join(self.content).encode()).hexdigest()[:16]

    @property
    def interpreter(self) -> str:
        """The path of its Python on a host."""
        return f"{self.folder}/bin/python"

    @property
    def folder(self) -> str:
        """Its folder on a host."""
        return f"~/.railhead/envs/{self.digest}"

    @property
    def megabytes(self) -> int:
        """The size of the download in MB, measured when the lock was written; 0 if unknown."""
        header = self.lock.read_text().splitlines()[0]
        match = re.search(rf"\b{re.escape(self.python)} (\d+) MB", header)
        return int(match[1]) if match else 0


@dataclass(frozen=True)
class Source:
    """A package that each host builds from the files of a local folder.

    Args:
        text: as the user named it.
        inside: the project's folder in `root`; "" is `root` itself.
        from_git: whether git wrote the folder.
        digest: over its files.
        requires: its requirements; None if its build decides them.
    """

    text: str
    root: Path
    inside: str = ""
    from_git: bool = False
    digest: str = ""
    requires: tuple[str, ...] | None = None

    @property
    def note(self) -> str:
        """Its line in a plan."""
        unknown = "; what it requires is not known before, and must be in --requirements too"
        return f"built on each host: {self.text}{unknown if self.requires is None else ''}"


@dataclass(frozen=True)
class Environment(LockedEnvironment):
    """A runtime on one Python; `extra` is the locked text of the user's own packages, `sources`:
    packages that hosts build; `plain`: without Horovod, which only launcher horovod needs."""

    runtime: Runtime
    python: str
    why: str
    extra: str = ""
    plain: bool = False
    sources: tuple[Source, ...] = ()

    @property
    def horovod(self) -> bool:
        """Whether it has Horovod."""
        return self.runtime.horovod and not self.plain

    @property
    def lock(self) -> Path:
        """The locked requirements."""
        return self.runtime.lock

    @property
    def content(self) -> list[str]:
        """The runtime's name, the Python, the locked texts, the sources and the recipe of Horovod,
        if it has Horovod."""
        parts = [self.runtime.name, self.python, self.lock.read_text(), self.extra]
        parts += [f"{source.digest} {source.inside}" for source in self.sources]
        return parts + [path.read_text() for path in self.runtime.recipe if self.horovod]

    def wheel_key(self, builder: HostFacts) -> str:
        """The name of a Horovod wheel, which fits one system, Python, TensorFlow and Open MPI
        series."""
        mpi = open_mpi.series(builder).split(".")[0]
        parts = [builder.os, builder.arch, self.python, self.runtime.version, mpi]
        parts += [path.read_text() for path in self.runtime.recipe]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class BucketClient(LockedEnvironment):
    """The environment on the chief that uploads to the stack's bucket."""

    python: str

    @property
    def lock(self) -> Path:
        """The locked requirements."""
        return LOCKS / "bucket.txt"

    @property
    def content(self) -> list[str]:
        """Its kind, the Python and the locked text."""
        return ["bucket", self.python, self.lock.read_text()]


def uv_digest() -> str:
    """Names the uv binary on a host."""
    return hashlib.sha256((LOCKS / "uv.txt").read_bytes()).hexdigest()[:16]


def row_named(name: str, launcher: str | None) -> RuntimeRow:
    """The row that --runtime names, if it has what the launcher needs.

    Raises:
        UsageError: no row has this name, or it does not serve the launcher.
    """
    if name not in ROWS:
        raise UsageError(f"runtime {name!r}: one of {', '.join(ROWS)}")
    if launcher and not ROWS[name].supports(launcher):
        able = ", ".join(row.name for row in ROWS.values() if row.supports(launcher))
        raise UsageError(
            f"runtime {name} does not support launcher {launcher}; {able} do",
            hint=f"--runtime {able.partition(',')[0]}",
        )
    return ROWS[name]


def choose_runtime(
    facts: Mapping[str, HostFacts], launcher: str | None, name: str | None
) -> Environment:
    """The environment that fits all hosts and the launcher; `name` is the name of a row.

    Raises:
        UsageError: a host has an architecture that no runtime is locked for, only some of the
            hosts have GPUs, or no Python of the row is on all of them.
    """
    gpu, hosts_are = _hosts_with_gpu(facts)
    row, why = _choose_row(facts, launcher, name)
    python = common_python(facts, row.pythons)
    plain = row.horovod and not uses_horovod(launcher)
    return Environment(Runtime(row, gpu), python, f"{hosts_are}; {why}", plain=plain)


def uses_horovod(launcher: str | None) -> bool:
    """Whether the ranks of a launcher use Horovod; None: the default launcher."""
    return launcher in (None, "horovod")


def preferring_installed(
    environment: Environment, facts: Mapping[str, HostFacts], digest: str | None = None
) -> Environment:
    """The environment; but instead of a plain one that is not installed, the one with Horovod if
    all hosts have it already. With `digest`, of a run that continues, the one of this digest."""
    complete = replace(environment, plain=False)
    for installed in (environment, complete) if environment.plain else ():
        is_installed = all(installed.digest in host.envs for host in facts.values())
        if is_installed if digest is None else installed.digest == digest:
            return installed
    return environment


def _choose_row(
    facts: Mapping[str, HostFacts], launcher: str | None, name: str | None
) -> tuple[RuntimeRow, str]:
    if name is not None:
        return row_named(name, launcher), f"--runtime {name}"
    usable = [row for row in ROWS.values() if row.supports(launcher)]
    installed = [
        r for r in usable if any(all(p in f.pythons for f in facts.values()) for p in r.pythons)
    ]
    if installed and installed[0] != usable[0]:
        return installed[0], f"{usable[0].name} has no Python that all hosts have"
    return usable[0], "the default"


def _hosts_with_gpu(facts: Mapping[str, HostFacts]) -> tuple[bool, str]:
    """Whether the hosts have GPUs, and the reason as text."""
    for name, host in facts.items():
        if host.arch != "x86_64":
            raise UsageError(f"{name} is {host.arch}: the runtimes are locked for x86_64 only")
    with_gpu = [name for name, host in facts.items() if gpus_of(host)]
    if with_gpu and len(with_gpu) < len(facts):
        without = ", ".join(name for name in facts if name not in with_gpu)
        raise UsageError(
            f"GPUs on {', '.join(with_gpu)} but none on {without}: name hosts of one kind only"
        )
    if with_gpu:
        return True, f"GPUs: {gpus_of(facts[with_gpu[0]])[0]}"
    return False, "no GPU on any host"


def gpus_of(host: HostFacts) -> tuple[str, ...]:
    """The GPUs on which a host trains: those that its driver lists; without a working driver, the
    cards that are not too old for TensorFlow."""
    return host.gpus or tuple(str(card) for card in host.gpu.cards if card.arch not in TOO_OLD)


def missing_parts(facts: HostFacts, *, chief: bool, builds: bool) -> dict[str, str]:
    """The missing system parts of a host, each with its package: {"mpirun": "openmpi-bin"}."""
    needed = ["mpirun"]
    if chief:
        needed += ["ssh", "ssh-keygen"]
    if builds:
        needed += BUILD_TOOLS
    have = set(facts.tools) | ({"mpi.h"} if facts.mpi_headers else set())
    return {part: PACKAGES[part] for part in needed if part not in have}
