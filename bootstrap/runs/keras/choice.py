"""`--keras auto|2|3`: chooses the Keras of a script before a host is contacted, and says why."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from railhead.documents.lazy import dataclass

from ...errors import UsageError
from ...inventory.files import read_given
from ...plan.runtimes import RUNTIMES
from ...ssh.bundle import Bundle
from .evidence import BYTES, CALLED, HDF5, PINNED, Evidence, Read, evidence_of
from .horovod_calls import HINT, NEITHER

REQUIREMENTS_BYTES = 1_000_000
_PIN = re.compile(
    r"^[ \t]*(keras|tf[-_.]keras)(?![\w.-])[ \t]*(?:\[[^\]\n]*\])?([^;#\n]*)", re.I | re.M
)
_OLD = ("2.15.0", "2.11.0", "2.3.1")  # versions of the package keras that have Keras 2


@dataclass(frozen=True)
class KerasChoice:
    """The Keras of a run, 2 or 3, and why. `auto`: the program's source decided; if the program
    then fails because of its Keras before the first step, the run starts again with the other
    one."""

    version: int = 3
    why: str = "the built-in training is written for it"
    auto: bool = False


def choose(option: str | None, evidence: Sequence[Evidence], otherwise: KerasChoice) -> KerasChoice:
    """The Keras for a script: that of the option, or the one that the evidence shows.

    Args:
        option: the value of --keras. otherwise: the choice if the evidence shows neither.

    Raises:
        UsageError: the script cannot run with the Keras of the option, or with neither.
    """
    evidence = _without_neither(evidence)
    if option in ("2", "3"):
        _refuse_other(int(option), evidence)
        return KerasChoice(int(option), "given by --keras")
    for level in range(CALLED + 1):
        shown = [proof for proof in evidence if proof.level == level]
        if len({proof.keras for proof in shown}) == 1:
            return KerasChoice(shown[0].keras, f"{shown[0].place} {shown[0].what}", auto=True)
    return otherwise


def _without_neither(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence for one Keras; UsageError if the script fails with either as soon as it
    starts."""
    for proof in evidence:
        if proof.keras == NEITHER and proof.certain:
            raise UsageError(
                f"{proof.place} {proof.what}, which Horovod refuses for optimizers of Keras",
                hint=f"use {HINT}",
            )
    return [proof for proof in evidence if proof.keras != NEITHER]


def _refuse_other(keras: int, evidence: Sequence[Evidence]) -> None:
    """UsageError if the script needs only the other Keras as soon as it starts."""
    certain = [proof for proof in evidence if proof.certain]
    if certain and all(proof.keras != keras for proof in certain):
        first = certain[0]
        raise UsageError(
            f"--keras {keras}: {first.place} {first.what}, which needs Keras {first.keras}",
            hint=f"--keras {first.keras}   # or leave out --keras",
        )


def undecided(script: str) -> KerasChoice:
    """The choice for a script that shows neither Keras."""
    return KerasChoice(3, f"nothing in {script} needs Keras 2", auto=True)


@lru_cache(maxsize=1)  # all trials of a sweep have the same program
def evidence_in_bundle(bundle: Bundle, script: str) -> tuple[Evidence, ...]:
    """The evidence in a script of a bundle, and in the modules of the bundle that it reaches."""
    return tuple(evidence_of(script, reader_of(bundle)))


def reader_of(bundle: Bundle) -> Read:
    """A reader of the bundle's files by path: the content, of an HDF5 file the beginning; None for
    a file that is missing or too long."""
    sizes = {file.path: file.size for file in bundle.files}

    def read(path: str) -> bytes | None:
        size = sizes.get(path)
        if size is None or (size > BYTES and not path.endswith(HDF5)):
            return None
        # The file may have been removed since; sending it reports that.
        with contextlib.suppress(OSError), (bundle.root / path).open("rb") as file:
            return file.read(BYTES)
        return None

    return read


def evidence_in_requirements(file: Path) -> Iterator[Evidence]:
    """The evidence in the packages of --requirements; none if the file cannot be read.

    Raises:
        UsageError: a version of Keras that no runtime has.
    """
    try:
        text = read_given(file, str(file), REQUIREMENTS_BYTES).decode(errors="replace")
    except UsageError:
        return  # reported when the packages are resolved
    for pin in _PIN.finditer(text):
        place = f"{file.name}:{text.count(chr(10), 0, pin.start(1)) + 1}"
        versions = pin[2].strip()
        if pin[1].lower() == "keras":
            _refuse_version(file, pin[0].strip(), versions, versions_of("keras"))
            if not _allows(versions, _OLD):
                yield Evidence(3, PINNED, place, f"requires {pin[0].strip()}")
        else:
            _refuse_version(file, pin[0].strip(), versions, versions_of("tf-keras"))
            yield Evidence(2, PINNED, place, f"requires {pin[0].strip()}")


def versions_of(package: str) -> tuple[str, ...]:
    """The versions of a package in the locked runtimes."""
    line = re.compile(rf"^{re.escape(package)}==([\w.]+)", re.MULTILINE)
    locks = [runtime.lock.read_text() for runtime in RUNTIMES.values()]
    return tuple(sorted({version for lock in locks for version in line.findall(lock)}))


def _refuse_version(file: Path, pin: str, versions: str, locked: Sequence[str]) -> None:
    if not _allows(versions, locked):
        raise UsageError(
            f"--requirements {file}: {pin} is not a version of a runtime, which have "
            f"{', '.join(versions_of('keras'))} as keras, and Keras 2 as tf_keras "
            f"{', '.join(versions_of('tf-keras'))}",
            hint=f"remove it from {file.name}; for Keras 2 add --keras 2",
        )


def _allows(specifier: str, versions: Iterable[str]) -> bool:
    """Whether a specifier such as `>=3` allows one of these versions, or cannot be read."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # late: 20 ms

    try:
        return any(SpecifierSet(specifier).filter(versions))
    except InvalidSpecifier:
        return True  # reported when the packages are resolved
