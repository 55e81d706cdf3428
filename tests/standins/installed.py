"""Railhead installed from its wheel, outside the clone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from places import ROOT

from bootstrap.provision.uv import local_uv
from railhead.installation import DISTRIBUTION

Done = subprocess.CompletedProcess[str]
SOURCES = ("railhead", "bootstrap", "stacks", "training", "locks", "docs", "pyproject.toml",
           "scripts", "LICENSE", "NOTICE", ".gitignore")  # fmt: skip
NO_DOWNLOADS = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1"}


def uv(*args: str, caches: Path, **more: str) -> Done:
    """Type `uv words` with the caches of the person who runs the tests."""
    variables = {**os.environ, **NO_DOWNLOADS, "UV_CACHE_DIR": str(caches / "uv"), **more}
    return subprocess.run([local_uv(), *args], env=variables, capture_output=True, text=True)


def build(source: Path, folder: Path, *options: str, caches: Path) -> Path:
    """The wheel of the project in `source`; without options through its source distribution, as
    `uv build` and `python -m build` build it."""
    words = ("--no-build-isolation", "--python", sys.executable, "--offline", "--quiet", *options)
    done = uv("build", *words, "-o", str(folder), str(source), caches=caches)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Installed:
    """A Python environment that has Railhead from a wheel."""

    folder: Path

    @classmethod
    def whole(cls, folder: Path, wheel: Path, caches: Path, python: str) -> Installed:
        """With what the wheel declares, in the versions of the lock: from uv's cache, otherwise
        from the package index."""
        made = uv("venv", "--quiet", "--python", python, str(folder), caches=caches)
        assert made.returncode == 0, made.stderr
        words = ["pip", "install", "--quiet", "--python", str(folder / "bin/python"), str(wheel)]
        words += ["--constraint", str(ROOT / "locks/control.txt")]
        done = uv(*words, "--offline", caches=caches)
        if done.returncode:
            done = uv(*words, caches=caches)
        assert done.returncode == 0, done.stderr
        return cls(folder)

    @classmethod
    def as_tool(cls, folder: Path, wheel: Path, caches: Path, python: str) -> Installed:
        """By `uv tool install`, in the versions of the lock."""
        places = {"UV_TOOL_DIR": str(folder), "UV_TOOL_BIN_DIR": str(folder / "bin")}
        words = ["tool", "install", "--quiet", "--python", python, str(wheel)]
        words += ["--constraints", str(ROOT / "locks/control.txt")]
        done = uv(*words, "--offline", caches=caches, **places)
        if done.returncode:
            done = uv(*words, caches=caches, **places)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (folder / "bin").iterdir()] == ["railhead"]
        return cls(folder / DISTRIBUTION)

    @classmethod
    def with_packages_of_the_tests(cls, folder: Path, wheel: Path, caches: Path) -> Installed:
        """With the packages of this Python's environment, Pulumi's too, but not with the clone:
        what its .pth file names is not read from there."""
        install = ("pip", "install", "--quiet", "--no-deps", "--python", f"{folder}/bin/python")
        for words in (
            ("venv", "--quiet", "--python", sys.executable, str(folder)),
            (*install, str(wheel)),
        ):
            done = uv(*words, caches=caches)
            assert done.returncode == 0, done.stderr
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        return cls(folder)

    def run(self, program: str, *args: str, folder: Path, **variables: str) -> Done:
        """Run a program of the environment, as somebody who has not activated it."""
        return subprocess.run(
            [self.folder / "bin" / program, *args],
            cwd=folder,
            env={**clean(os.environ), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what leads to the clone."""
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}
