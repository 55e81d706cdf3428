"""The packages of --requirements, locked together with the runtime's."""

from __future__ import annotations

import re
from pathlib import Path

from ..console import log
from ..errors import UsageError
from ..plan.runtimes import ROWS, TENSORFLOW, Environment, Runtime

# An entry of a lock: its first line, and the indented lines with its hashes.
_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)
_BUILDS = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "intel-tensorflow"}
_UNKNOWN = "was not found in"  # uv's message about a name that the index does not have


def checked_requirements(file: str) -> Path:
    """The file of --requirements, checked as far as possible without a host.

    Raises:
        UsageError: it is missing, a line is not a requirement, or it installs Horovod.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # 40 ms

    path = Path(file)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not a text file"
        raise UsageError(f"--requirements {file}: must be a file of packages: {why}") from None
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        wanted = re.split(r"(?:^|\s)(?:#|--)", line)[0].strip()
        if not wanted or wanted.startswith("-") or "/" in wanted:  # an option, a URL or a path
            continue
        try:
            Requirement(wanted)
        except InvalidRequirement as error:
            raise UsageError(
                f"--requirements {file}: line {number} must be a package and its versions, such as"
                f" keras-cv>=0.9: {error}"
            ) from None
    if "horovod" in names_in(text):
        raise _brings_horovod(path, "the runtimes have it, compiled for the hosts")
    return path


def resolve_extra(environment: Environment, requirements: Path, uv: str) -> str:
    """Lock the user's requirements together with the runtime's pins; returns the locked text.

    On hosts without GPUs the runtime has the build tensorflow-cpu: `tensorflow` is resolved in its
    version, so that a contradiction is found, and then left out.

    Raises:
        UsageError: the file names a package of the runtime, or conflicts with the runtime; the
            message has uv's output.
    """
    runtime = environment.runtime
    _refuse_ours(requirements, requirements.read_text(errors="replace"), runtime)
    argv = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-emit-index-url"]
    argv += ["--no-header", "--no-annotate", "--python-version", environment.python]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
    argv += ["--constraints", str(runtime.lock), "--constraints", "-", str(requirements)]
    framework = f"{runtime.framework.module}=={runtime.version}"
    limits = "\n".join([framework, *runtime.row.limits, ""])
    process = log.run(argv, input=limits, capture_output=True)
    if process.returncode:
        raise _conflict(requirements, runtime, process.stderr)
    _refuse_ours(requirements, process.stdout, runtime)
    replaced = runtime.framework is TENSORFLOW and not runtime.gpu
    return without("tensorflow" if replaced else "", process.stdout)


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
        raise _brings_horovod(requirements, why)
    own = "tensorflow" if runtime.gpu else "tensorflow-cpu"
    if runtime.framework is not TENSORFLOW:
        return
    if others := sorted(names & _BUILDS - {"tensorflow", own}):
        raise UsageError(
            f"--requirements {requirements} installs {others[0]}, which overwrites the"
            f" TensorFlow {runtime.version} of the runtime ({own})",
            hint=f"write tensorflow instead, or nothing, in {requirements.name}",
        )


def _brings_horovod(requirements: Path, why: str) -> UsageError:
    hint = f"remove it from {requirements.name}, and the package that requires it, if any"
    return UsageError(f"--requirements {requirements} installs horovod: {why}", hint=hint)


def _conflict(requirements: Path, runtime: Runtime, stderr: str) -> UsageError:
    tail = "\n  ".join(stderr.strip().splitlines()[-8:])
    loosen = f"loosen the versions in {requirements.name}; the pins are in {runtime.lock}"
    spelling = f"check the names of the packages in {requirements.name}"
    return UsageError(
        f"{requirements} conflicts with runtime {runtime.name}:\n  {tail}",
        hint=spelling if _UNKNOWN in stderr else loosen,
    )
