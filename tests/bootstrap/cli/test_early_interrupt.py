"""Ctrl-C before a task has begun: while modules are imported and the fabfile is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.errors import INTERRUPTED
from bootstrap.plan.runtimes import REPO

# Presses it when a module is imported, then runs the command.
PROGRAM = """
import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv[:] = ["fab", *{words!r}]
from railhead.__main__ import main
sys.modules.pop("pathlib", None)
main()
"""


def pressed(module: str, folder: Path, *words: str, ignored: bool = False) -> tuple[int, str, str]:
    program = PROGRAM.format(module=module, words=words)
    if ignored:
        program = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{program}"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(
        argv, cwd=folder, env={"PYTHONPATH": str(REPO)}, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("module", ["pathlib", "argparse", "bootstrap.cli.machine_tasks"])
def test_it_ends_the_command_without_a_traceback(tmp_path: Path, module: str) -> None:
    assert pressed(module, tmp_path, "--list") == (INTERRUPTED, "", "")


def test_it_stays_ignored_where_it_is(tmp_path: Path) -> None:
    code, printed, errors = pressed("argparse", tmp_path, "--list", ignored=True)
    assert (code, errors) == (0, "") and "train" in printed


def test_a_task_of_the_user_is_interrupted_as_with_fabric_alone(tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text(
        "from fabric import task\n\n@task\ndef work(c):\n"
        "    try:\n        import pressed_here\n    finally:\n        print('ended')\n"
    )
    code, printed, _ = pressed("pressed_here", tmp_path, "work")
    assert (code, printed) == (1, "ended\n")
