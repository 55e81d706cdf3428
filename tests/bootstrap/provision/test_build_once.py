"""A wheel is built once in the folder of a host, and appears whole."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bootstrap.provision.horovod_wheel import ONCE

BUILD = """echo built >>"$2.count"; mkdir "$2"; echo half >"$2/horovod-1.whl"
[ -e "$1" ] || exit 3
echo whole >"$2/horovod-1.whl"; echo a line after it
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "horovod.sh").write_text(BUILD)
    (tmp_path / "env").mkdir()
    return tmp_path


def paths(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("horovod.sh", "env", "out", "horovod.txt")]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", ONCE, *paths(folder)], capture_output=True, text=True)


def test_the_second_command_gets_the_wheel_of_the_first(folder: Path) -> None:
    wheel = folder / "out/horovod-1.whl"
    for _ in range(2):
        process = build(folder)
        assert (process.returncode, process.stdout.splitlines()[-1]) == (0, str(wheel))
    assert wheel.read_text() == "whole\n"
    assert (folder / "out.part.count").read_text() == "built\n"


def test_a_build_that_fails_leaves_no_wheel_and_the_next_command_builds(folder: Path) -> None:
    (folder / "env").rmdir()
    assert build(folder).returncode == 3 and not (folder / "out").exists()
    (folder / "env").mkdir()
    assert build(folder).returncode == 0
    assert (folder / "out/horovod-1.whl").read_text() == "whole\n"


def test_a_build_that_is_terminated_removes_its_files_first(folder: Path) -> None:
    """What it leaves is killed when this command has ended."""
    cleaned = "trap 'sleep 0.2; touch \"$2.cleaned\"; exit 143' TERM"
    (folder / "horovod.sh").write_text(f"{cleaned}\necho going\nsleep 600 & wait\n")
    argv = ["sh", "-c", ONCE, *paths(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout and process.stdout.readline() == b"going\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) == 143
        assert (folder / "out.part.cleaned").exists() and not (folder / "out").exists()
