"""A full disk does not end the built-in training: what it loses is best effort."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from standins.runtime_cases import Runtime

CASES = Path(__file__).with_name("full_disk.py")
Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a small disk with these options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mounted(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        if os.geteuid() or subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            pytest.skip("mounting a small disk needs root")
        return folder

    yield mounted
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("is_full", ["", "before the first event"])
@pytest.mark.parametrize(
    ("by", "options"), [("bytes", "size=64k"), ("inodes", "size=1m,nr_inodes=5")]
)
def test_a_full_disk_loses_events_and_continues(
    runtime: Runtime, mount: Mount, by: str, options: str, is_full: str
) -> None:
    disk = mount(options)
    if failure := runtime.run(CASES, "events_are_best_effort", str(disk), by, is_full):
        pytest.fail(failure, pytrace=False)
