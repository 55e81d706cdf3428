"""--requirements: packages come as wheels, and no code of theirs runs on this computer."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from bootstrap.errors import UsageError
from bootstrap.plan.runtimes import REPO, RUNTIMES, Environment
from bootstrap.provision import uv
from bootstrap.provision.requirements.lines import read_requirements
from bootstrap.provision.requirements.resolve import with_packages

CPU = Environment(RUNTIMES["tf2.18-cpu"], "3.11", "")
PACKAGE = """import pathlib
pathlib.Path({marker!r}).write_text("ran")
from setuptools import setup
setup(name="mine", version="1")
"""
BUILT = {
    "a folder without a project": "./more",
    "a file": "-e ./mine/setup.py",
    "an archive": "./mine-1.tar.gz",
    "an archive of an address": "mine @ https://example.org/mine-1.tar.gz",
    "a repository without authentication": "git+http://example.org/mine.git",
    "a repository on this computer": "git+file://{here}/mine",
    "a repository and a password": "git+https://me:secret@example.org/mine.git",
    "a branch that is an option": "git+https://example.org/mine.git@--upload-pack=x",
    "another kind of repository": "hg+https://example.org/mine",
    "an option that builds": "--no-binary mine\nmine",
    "an option that allows to build": "--only-binary :none:\nmine",
    "an unknown option": "--config-settings x=y",
    "a file that includes one": "-r more/other.txt",
}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What exists when the code of a package has run."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/setup.py").write_text(PACKAGE.format(marker=str(tmp_path / "ran")))
    (tmp_path / "more").mkdir()
    (tmp_path / "more/other.txt").write_text("six\n-e ../absent\n")
    return tmp_path / "ran"


@pytest.mark.parametrize("text", BUILT.values(), ids=BUILT)
def test_what_would_be_built_here_is_refused_by_its_line(
    tmp_path: Path, marker: Path, text: str
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("tqdm\n" + text.format(here=tmp_path) + "\n")
    with pytest.raises(UsageError, match="line 2, .*would run its code on this computer"):
        read_requirements(file)
    with pytest.raises(UsageError, match="line 2, "):
        with_packages(CPU, file, uv.local_uv())
    assert not marker.exists()


@pytest.mark.parametrize("words", [["{here}/mine"], ["mine @ file://{here}/mine"]])
def test_uv_builds_nothing_here(tmp_path: Path, marker: Path, words: list[str]) -> None:
    text = words[0].format(here=tmp_path) + "\n"
    done = uv.pip("compile", "--offline", "-", text=text)
    assert done.returncode and "Building source distributions" in done.stderr  # not the network
    assert not marker.exists()


def test_a_package_without_a_wheel_is_named(tmp_path: Path) -> None:
    file, program = tmp_path / "requirements.txt", tmp_path / "uv"
    file.write_text("nothing\n")
    reason = "Because all versions of nothing have no usable wheels and you require nothing"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{reason}' >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(UsageError, match=reason) as caught:
        with_packages(CPU, file, str(program))
    assert caught.value.hint.startswith("choose a version with a wheel")


def test_uv_gets_no_secret_of_this_computer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0123hidden")
    monkeypatch.setenv("UV_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\nenv; pwd\n")
    program.chmod(0o755)
    seen = uv.pip("compile", program=str(program)).stdout.splitlines()
    assert {"UV_INDEX_URL=https://index.example/simple", "https_proxy=http://proxy:3128"} < {*seen}
    assert "UV_PYTHON_DOWNLOADS=never" in seen and seen[-1] == "/"
    assert not [line for line in seen if "0123hidden" in line]


ENDLESS = {"a device": "/dev/zero", "a pipe": "pipe", "a large file": "large", "a folder": "."}


@pytest.mark.parametrize("name", ENDLESS.values(), ids=ENDLESS)
def test_a_file_without_an_end_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=f"--requirements {path}: (must|Is a dir)"):
        read_requirements(path)


def test_only_one_module_starts_uv_and_pip_here() -> None:
    """Another list of words that begins a command of theirs would lack the options of this one."""
    starts = {"bootstrap/provision/uv.py", "bootstrap/provision/wheels.py"}
    starts |= {"bootstrap/clouds/local/package_index.py"}  # reads the settings of pip
    on_hosts = {"bootstrap/cli/wheel.py", "bootstrap/serving/notebook.py"}
    on_hosts |= {"bootstrap/provision/apply.py", "bootstrap/provision/host_step.py"}
    modules = set()
    for path in (REPO / "bootstrap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            texts = [e.value for e in getattr(node, "elts", []) if isinstance(e, ast.Constant)]
            if isinstance(node, ast.List) and {"pip", "venv"} & {*texts}:
                modules.add(path.relative_to(REPO).as_posix())
            if isinstance(node, ast.Name | ast.Attribute):
                name = node.id if isinstance(node, ast.Name) else node.attr
                if name == "find_uv_bin":
                    assert path.name == "uv.py"
    assert modules <= starts | on_hosts
