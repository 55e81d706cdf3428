"""The types of the wheel, as a user's mypy sees them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from places import ROOT
from standins.installed import Installed, build

MINE = """import railhead
with railhead.Cluster("a,b") as cluster:
    run = cluster.train(preset="mnist")
    reveal_type(run)
    reveal_type(run.results)
    cluster.train(epochs=3)
"""


def test_mypy_finds_the_types_of_the_interface(tmp_path: Path, shared_caches: Path) -> None:
    wheel = build(ROOT, tmp_path, "--wheel", caches=shared_caches)
    installed = Installed.with_packages_of_the_tests(tmp_path / "env", wheel, shared_caches)
    (tmp_path / "mine.py").write_text(MINE)
    python = ("--python-executable", installed.folder / "bin/python")
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--no-incremental",
        "--cache-dir",
        os.devnull,
        *python,
    ]
    done = subprocess.run([*argv, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    assert re.findall(r'Revealed type is "([\w.]+)"', done.stdout) == [
        *("railhead.bootstrap.interface.run.Run", "pathlib.Path")
    ]
    assert 'mine.py:6: error: Unexpected keyword argument "epochs"' in done.stdout
