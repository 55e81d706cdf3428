"""The bounds of the dependencies are versions that were tried: the lowest of each, together."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version
from places import ROOT
from standins.installed import uv

from railhead.installation import DISTRIBUTION

LOCK = ROOT / "locks/lowest.txt"
# What meets these packages: SSH, both clouds' clients, buckets, Pulumi's command.
TRIED = (
    "tests/bootstrap/ssh/test_connect.py",
    "tests/bootstrap/ssh/test_trust.py",
    "tests/bootstrap/host/buckets/test_repeats.py",
    "tests/bootstrap/inventory/test_pulumi_stack.py",
    "tests/training/data/test_store.py",
)


def declared() -> list[Requirement]:
    """The dependencies of the project, with those of its extra."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    return [
        Requirement(r)
        for r in (*project["dependencies"], *project["optional-dependencies"]["stacks"])
    ]


def locked() -> dict[str, Version]:
    """The versions of the lock for Python 3.10, the first that it names."""
    pairs = re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", LOCK.read_text(), re.MULTILINE)
    return {name: Version(version) for name, version in reversed(pairs)}


def test_the_lock_has_the_lowest_version_of_each_bound() -> None:
    assert {r.name: str(r) for r in declared()} == {
        r.name: str(r) for r in map(Requirement, lines(ROOT / "locks/lowest.in"))
    }
    for requirement in declared():
        (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
        version = locked()[requirement.name]
        parts = Version(bound).release
        assert version.release[: len(parts)] == parts, requirement


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_the_lowest_versions_do_what_the_newest_do(tmp_path: Path, shared_caches: Path) -> None:
    """Beside the packages of the tests."""
    environment = tmp_path / "env"
    python = environment / "bin/python"
    install = ("pip", "install", "--quiet", "--no-deps", "--python", str(python), "-r", str(LOCK))
    made = uv(
        "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env"), caches=shared_caches
    )
    assert made.returncode == 0, made.stderr
    done = uv(*install, "--offline", caches=shared_caches)
    if done.returncode:
        done = uv(*install, caches=shared_caches)
    assert done.returncode == 0, done.stderr
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    words = [str(python), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TRIED]
    tried = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout[-4000:]
