"""The packages of --requirements, locked together with the runtime's."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

from ...errors import UsageError
from ...plan.runtimes import ROWS, TENSORFLOW, Environment, Runtime
from .. import uv as uv_program
from .lines import brings_horovod, read_requirements
from .sources import fetched

# An entry of a lock: its first line, and the indented lines with its hashes.
_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)
_BUILDS = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "intel-tensorflow"}
# Packages without a wheel that many others need, such as tensorflow-datasets and hydra-core, and
# what they require: hosts build them.
SOURCES = {
    "promise": ("six",),
    "docopt": (),
    "antlr4-python3-runtime": (),
    "rouge-score": ("absl-py", "nltk", "numpy", "six"),
}
_NO_WHEEL = "no usable wheels"  # uv's message about a package that would have to be built
_UNKNOWN = "was not found in"  # uv's message about a name that the index does not have


def with_packages(environment: Environment, requirements: Path, uv: str) -> Environment:
    """The environment with the packages of the user: locked together with the runtime's pins, and
    as sources.

    On hosts without GPUs the runtime has the build tensorflow-cpu: `tensorflow` is resolved in its
    version, so that a contradiction is found, and then left out. UsageError: the file names a
    package of the runtime, or conflicts with the runtime; the message has uv's output.
    """
    runtime = environment.runtime
    user_packages = read_requirements(requirements)  # again: it may have changed
    sources = tuple(map(fetched, user_packages.sources))
    required = [f"{requirement}\n" for source in sources for requirement in source.requires or ()]
    text = "".join([user_packages.text, *required])
    _refuse_ours(requirements, text, runtime)
    options = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"]
    options += ["--python-version", environment.python]
    options += ["--python-platform", "x86_64-manylinux_2_28"]
    framework = f"{runtime.framework.module}=={runtime.version}"
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "limits.txt")
        limits.write_text("\n".join([framework, *runtime.row.limits, ""]))
        options += ["--constraints", str(runtime.lock), "--constraints", str(limits), "-"]
        process = uv_program.pip("compile", *options, program=uv, text=text, sources=SOURCES)
    if process.returncode:
        raise _conflict(requirements, runtime, process.stderr)
    _refuse_ours(requirements, process.stdout, runtime)
    replaced = runtime.framework is TENSORFLOW and not runtime.gpu
    extra = without("tensorflow" if replaced else "", process.stdout)
    return replace(environment, extra=extra, sources=sources)


def without(name: str, lock: str) -> str:
    """A lock without the entry of this package."""
    return _ENTRY.sub(lambda entry: "" if entry[1] == name else entry[0], lock)


def names_in(text: str) -> set[str]:
    """The names of the packages in a requirements file or a lock, normalized."""
    return {re.sub(r"[-_.]+", "-", entry[1]).lower() for entry in _ENTRY.finditer(text + "\n")}


def _refuse_ours(requirements: Path, text: str, runtime: Runtime) -> None:
    """UsageError if Horovod or another build of TensorFlow is among these packages."""
    names = names_in(text)
    if "horovod" in names:
        with_horovod = next(row.name for row in ROWS.values() if row.horovod)
        why = (
            f"runtime {runtime.row.name} has it, compiled for the hosts"
            if runtime.horovod
            else f"runtime {runtime.row.name} has none; {with_horovod} has it"
        )
        raise brings_horovod(requirements, why)
    build = "tensorflow" if runtime.gpu else "tensorflow-cpu"
    if runtime.framework is not TENSORFLOW:
        return
    if others := sorted(names & _BUILDS - {"tensorflow", build}):
        raise UsageError(
            f"--requirements {requirements} installs {others[0]}, which overwrites the"
            f" TensorFlow {runtime.version} of the runtime ({build})",
            hint=f"write tensorflow instead, or nothing, in {requirements.name}",
        )


def _conflict(requirements: Path, runtime: Runtime, stderr: str) -> UsageError:
    tail = "\n  ".join(stderr.strip().splitlines()[-8:])
    loosen = f"loosen the versions in {requirements.name}; the pins are in {runtime.lock}"
    spelling = f"check the names of the packages in {requirements.name}"
    if _NO_WHEEL in stderr:
        loosen = (
            "choose a version with a wheel: to build a package would run its code on this computer"
        )
    return UsageError(
        f"{requirements} conflicts with runtime {runtime.name}:\n  {tail}",
        hint=spelling if _UNKNOWN in stderr else loosen,
    )
