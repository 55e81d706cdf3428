"""What a command imports on its way to the hosts: the seconds that it takes come from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

# None of these is needed on hosts that cost nothing, are ready, and have no endpoint.
NOT_ON_THE_WAY = {
    *("ctypes", "decimal", "email", "html", "importlib.metadata", "invoke", "ssl", "uv"),
    *("bootstrap.costs.budget", "bootstrap.runs.metrics.plots", "railhead.money.host"),
    *("bootstrap.provision.apply", "bootstrap.runs.failures.hints"),
}
STATUS = ("bootstrap.cli.program", "bootstrap.cli.status", "bootstrap.cli.targets")
TRAIN = ("bootstrap.cli.program", "bootstrap.workflows.train", "bootstrap.cli.targets")


def imported_by(modules: tuple[str, ...]) -> set[str]:
    """All modules of a process that begins as a command does and imports these."""
    text = "\n".join(
        (
            "import json, sys",
            "from importlib import import_module",
            "from railhead.__main__ import begin",
            "begin()",
            f"for name in {modules!r}: import_module(name)",
            "print(json.dumps([*sys.modules]))",
        )
    )
    argv = [sys.executable, "-c", text]
    done = subprocess.run(argv, cwd=ROOT, env=os.environ, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("modules", "most"), [(STATUS, 460), (TRAIN, 530)], ids=["status", "train"]
)
def test_a_command_imports_what_it_needs_on_its_way(modules: tuple[str, ...], most: int) -> None:
    imported = imported_by(modules)
    assert imported & NOT_ON_THE_WAY == set()
    assert len(imported) <= most


def test_whoever_asks_after_paramiko_for_a_version_gets_it() -> None:
    text = "\n".join(
        (
            "from railhead.__main__ import begin",
            "begin()",
            "import paramiko",
            "from importlib.metadata import version",
            "print(paramiko.__version__ == version('paramiko'), version('fabric'))",
        )
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, text=True, capture_output=True)
    assert done.stdout.startswith("True "), done.stderr
