"""The packages of --requirements, locked together with the runtime's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import UsageError
from ..inventory.files import text_given
from ..plan.runtimes import ROWS, TENSORFLOW, Environment, Runtime
from . import uv as uv_program

# An entry of a lock: its first line, and the indented lines with its hashes.
_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)
_BUILDS = {"tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "intel-tensorflow"}
# Packages without a wheel that much needs, as tensorflow-datasets and hydra-core do, and what they
# require: hosts build them.
SOURCES = {
    "promise": ("six",),
    "docopt": (),
    "antlr4-python3-runtime": (),
    "rouge-score": ("absl-py", "nltk", "numpy", "six"),
}
REQUIREMENTS_BYTES = 1_000_000
INCLUDED = 8  # files that include each other
_INCLUDES = ("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints")
_INDEX_OPTIONS: tuple[str, ...] = (
    "-i",
    "--index-url",
    "--extra-index-url",
    "--no-index",
    "-f",
    "--find-links",
)
_INDEX_OPTIONS += ("--pre", "--prefer-binary", "--require-hashes", "--trusted-host")
_ADDRESS = re.compile(r"[/\\]|^\.")  # a path, a URL or a repository
_WHEEL = re.compile(r"https?://[^?#]*\.whl(\?[^#]*)?(#.*)?")
_NO_WHEEL = "no usable wheels"  # uv's message about a package that would have to be built
_UNKNOWN = "was not found in"  # uv's message about a name that the index does not have


def checked_requirements(file: str) -> Path:
    """The file of --requirements, checked as far as possible without a host.

    Raises:
        UsageError: it is missing, a line is not a requirement or would be built here, or it
            installs Horovod.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # 40 ms
    from packaging.utils import canonicalize_name

    path = Path(file)
    for given, number, wanted in _lines(path, f"--requirements {file}", INCLUDED):
        try:
            requirement = Requirement(wanted)
        except InvalidRequirement as error:
            if _ADDRESS.search(wanted):
                raise _not_built(given, number, wanted) from None
            raise UsageError(
                f"{given}: line {number} must be a package and its versions, such as"
                f" keras-cv>=0.9: {error}"
            ) from None
        if requirement.url and not _WHEEL.fullmatch(requirement.url):
            raise _not_built(given, number, wanted)
        if canonicalize_name(requirement.name) == "horovod":
            raise _brings_horovod(path, "the runtimes have it, compiled for the hosts")
    return path


def _lines(path: Path, given: str, deep: int) -> Iterator[tuple[str, int, str]]:
    """The packages of a file, and of those that it includes: how the file was named, the number of
    the line, and the requirement.

    Raises:
        UsageError: an option that would build a package here, or that is not known.
    """
    text = text_given(path, given, REQUIREMENTS_BYTES)
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        words = re.split(r"(?:^|\s)#", line)[0].strip()
        option = re.match(r"(--?[A-Za-z][\w-]*)(?:\s*=\s*|\s+|$)(.*)|-", words)
        if option is None:
            if wanted := re.split(r"\s--", words)[0].strip():
                yield given, number, wanted
        elif option[1] in _INCLUDES:
            if not deep:
                raise UsageError(f"{given}: line {number}: files must not include each other")
            yield from _lines(path.parent / option[2], f"{given}: {words}", deep - 1)
        elif option[1] not in _INDEX_OPTIONS:
            raise _not_built(given, number, words)


def _not_built(given: str, number: int, words: str) -> UsageError:
    return UsageError(
        f"{given}: line {number}, {words}: packages come as wheels, from an index or an https://"
        " address of one: to build a package would run its code on this computer",
        hint="put its folder beside the script, which is sent with it, or build its wheel yourself"
        " and name its address",
    )


def resolve_extra(environment: Environment, requirements: Path, uv: str) -> str:
    """Lock the user's requirements together with the runtime's pins; returns the locked text.

    On hosts without GPUs the runtime has the build tensorflow-cpu: `tensorflow` is resolved in its
    version, so that a contradiction is found, and then left out.

    Raises:
        UsageError: the file names a package of the runtime, or conflicts with the runtime; the
            message has uv's output.
    """
    runtime = environment.runtime
    text = text_given(requirements, f"--requirements {requirements}", REQUIREMENTS_BYTES)
    _refuse_ours(requirements, text, runtime)
    checked_requirements(str(requirements))  # it may have changed since the options were read
    options = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"]
    options += ["--python-version", environment.python]
    options += ["--python-platform", "x86_64-manylinux_2_28"]
    options += ["--constraints", str(runtime.lock), "--constraints", "-"]
    framework = f"{runtime.framework.module}=={runtime.version}"
    limits = "\n".join([framework, *runtime.row.limits, ""])
    file = str(requirements.absolute())
    process = uv_program.pip("compile", *options, file, program=uv, text=limits, sources=SOURCES)
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
    if _NO_WHEEL in stderr:
        loosen = (
            "choose a version with a wheel: to build a package would run its code on this computer"
        )
    return UsageError(
        f"{requirements} conflicts with runtime {runtime.name}:\n  {tail}",
        hint=spelling if _UNKNOWN in stderr else loosen,
    )
