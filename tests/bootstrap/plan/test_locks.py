"""The locks: exact, hashed, without an address, and in agreement with each other."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

from bootstrap.plan import runtimes

if sys.version_info >= (3, 11):
    import tomllib

LOCKS = sorted((ROOT / "locks").glob("*.txt"))
RUNTIMES = [path for path in LOCKS if path.name.startswith("runtime-")]
each_lock = pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
each_runtime = pytest.mark.parametrize("path", RUNTIMES, ids=lambda path: path.stem)


@dataclass(frozen=True)
class Pin:
    """One entry of a lock."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        return str(self.requirement.specifier).removeprefix("==")


def pins(path: Path) -> list[Pin]:
    """The entries of a lock; a line that is neither entry, hash nor comment fails."""
    text = "".join(x for x in path.read_text().splitlines(True) if not x.startswith("#"))
    entries = []
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = line.split(" --hash=")
        entries.append(Pin(Requirement(requirement.strip()), tuple(x.strip() for x in hashes)))
    return entries


def requirements_of(path: Path) -> list[Requirement]:
    """What the source of a lock asks for, its -r lines followed."""
    requirements = []
    for line in path.read_text().splitlines():
        if line.startswith("-r "):
            requirements += requirements_of(path.with_name(line[3:]))
        elif line and not line.startswith("#"):
            requirements.append(Requirement(line))
    return requirements


def versions(name: str) -> set[tuple[str, str]]:
    return {(pin.name, pin.version) for pin in pins(ROOT / "locks" / f"{name}.txt")}


def test_every_source_has_its_lock() -> None:
    assert [path.stem for path in LOCKS] == sorted(x.stem for x in (ROOT / "locks").glob("*.in"))
    assert RUNTIMES


@each_lock
def test_every_entry_is_exact_and_has_hashes(path: Path) -> None:
    entries = pins(path)
    assert entries
    for pin in entries:
        assert re.fullmatch(r"==[0-9][\w.+]*", str(pin.requirement.specifier)), pin.name
        assert pin.hashes, pin.name
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in pin.hashes), pin.name


@each_lock
def test_no_lock_names_an_address(path: Path) -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links|\bhttps?\b", path.read_text())


@each_lock
def test_a_lock_has_all_that_its_source_asks_for(path: Path) -> None:
    locked = pins(path)
    for requirement in requirements_of(path.with_suffix(".in")):
        same = [pin for pin in locked if pin.name == canonicalize_name(requirement.name)]
        assert same, requirement
        assert all(requirement.specifier.contains(pin.version) for pin in same), requirement


@each_lock
def test_a_lock_opens_with_the_size_of_what_it_fetches(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert re.fullmatch(r"# Fetched on Linux x86_64, by Python:( 3\.1\d \d+ MB[,.])+", first)


def minors(path: Path) -> list[int]:
    """The Pythons 3.x of a runtime, as the table has them; its lock opens with the same."""
    runtime = runtimes.RUNTIMES[path.stem.removeprefix("runtime-")]
    return sorted(int(python.removeprefix("3.")) for python in runtime.row.pythons)


each_python = pytest.mark.parametrize(
    ("path", "minor"),
    [pytest.param(path, m, id=f"{path.stem}-3.{m}") for path in RUNTIMES for m in minors(path)],
)


def test_every_runtime_has_a_lock_for_its_pythons_and_no_other() -> None:
    assert {path.stem for path in RUNTIMES} == {f"runtime-{name}" for name in runtimes.RUNTIMES}
    for path in RUNTIMES:
        first = path.read_text().splitlines()[0]
        assert [int(minor) for minor in re.findall(r" 3\.(\d+) \d+ MB", first)] == minors(path)


@each_python
def test_a_runtime_has_one_version_of_each_package(path: Path, minor: int) -> None:
    python = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.1"}
    environment = {**python, "sys_platform": "linux", "platform_machine": "x86_64"}
    marked = [(pin.name, pin.requirement.marker) for pin in pins(path)]
    names = [name for name, marker in marked if marker is None or marker.evaluate(environment)]
    assert len(names) == len(set(names))
    assert {"keras", "numpy", "setuptools"} <= set(names)


@each_runtime
def test_a_runtime_has_one_framework_and_no_horovod(path: Path) -> None:
    names = {pin.name for pin in pins(path)}
    assert "horovod" not in names
    assert len({"tensorflow", "tensorflow-cpu", "jax", "torch"} & names) == 1
    assert ("tf-keras" in names) is ("runtime-tf" in path.stem)


@each_runtime
def test_a_runtime_has_the_framework_that_the_table_reports(path: Path) -> None:
    runtime = runtimes.RUNTIMES[path.stem.removeprefix("runtime-")]
    package, _, version = runtime.requirement.partition("==")
    assert (package.partition("[")[0], version) in versions(path.stem)


@each_runtime
def test_a_runtime_for_gpus_has_a_cudnn_that_drives_a_v100(path: Path) -> None:
    """cuDNN 9.11 and later have no code for sm_70; V100 hosts get what all GPU hosts get."""
    cudnn = [pin.version for pin in pins(path) if pin.name == "nvidia-cudnn-cu12"]
    # The package index has one build of PyTorch, with CUDA.
    assert bool(cudnn) is (path.stem.endswith("-gpu") or "torch" in path.stem)
    assert all(tuple(map(int, version.split(".")[:2])) < (9, 11) for version in cudnn)


def test_horovod_is_pinned_by_its_source_alone() -> None:
    (pin,) = pins(ROOT / "locks/horovod.txt")
    assert (pin.name, pin.version, len(pin.hashes)) == ("horovod", "0.28.1", 1)


def test_what_shares_an_environment_agrees() -> None:
    assert versions("uv") <= versions("control") <= versions("dev")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_the_locks_have_versions_in_the_ranges_that_the_wheel_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, declared in [
        ("control", project["dependencies"]),
        ("stacks", project["optional-dependencies"]["stacks"]),
    ]:
        for requirement in map(Requirement, declared):
            locked = [v for n, v in versions(name) if n == canonicalize_name(requirement.name)]
            assert locked and all(map(requirement.specifier.contains, locked)), requirement
