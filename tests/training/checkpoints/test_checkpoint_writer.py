"""The thread that writes checkpoints, and the memory that a copy of the state needs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from places import ROOT

from training.checkpoints.memory import available_memory
from training.checkpoints.writer import Writer

MB = 1 << 20


def test_a_checkpoint_is_written_while_its_caller_continues() -> None:
    writer, release = Writer(), threading.Event()
    before = signal.getsignal(signal.SIGTERM)
    writer.start(7, time.monotonic(), lambda: release.wait(300))
    assert (writer.busy, writer.wait(0.01), writer.collect()) == (True, False, None)
    release.set()
    assert writer.wait(300)
    written = writer.collect()
    assert written is not None and (written.step, written.error) == (7, None)
    assert 0 <= written.pause < written.seconds
    assert writer.collect() is None and signal.getsignal(signal.SIGTERM) == before


def test_to_wait_for_a_slow_disk_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--on-stall stop` would end a run whose last checkpoint is written for more than a minute."""
    ticks, module = [], types.ModuleType("railhead_ticks")
    module.tick = lambda: ticks.append(1)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "railhead_ticks", module)
    monkeypatch.setattr("training.checkpoints.writer.TICK", 0.01)
    writer, release = Writer(), threading.Event()
    writer.start(7, time.monotonic(), lambda: release.wait(300))
    assert not writer.wait(0.2) and len(ticks) > 1
    release.set()
    assert writer.wait(300) and writer.collect()


@pytest.mark.parametrize("method", ["start", "write_now"])
def test_an_error_is_the_outcome_and_the_next_checkpoint_can_be_written(method: str) -> None:
    def fail() -> None:
        raise OSError("No space left on device")

    writer = Writer()
    for work in (fail, lambda: None):
        getattr(writer, method)(1, time.monotonic(), work)
        assert writer.wait(300)
        written = writer.collect()
        assert written is not None and isinstance(written.error, OSError) == (work is fail)


TERMINATED = """
import os, signal, sys, time
from pathlib import Path
from training.checkpoints.writer import Writer

def write():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)  # in which SIGTERM would have ended the process
    Path(sys.argv[1]).touch()

writer = Writer()
writer.start(1, 0.0, write)
while True:
    signal.pause()
"""


def test_a_process_finishes_its_checkpoint_and_then_ends_by_sigterm(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", TERMINATED, str(tmp_path / "complete")]
    code = subprocess.run(argv, cwd=ROOT, timeout=300).returncode
    assert (code, (tmp_path / "complete").exists()) == (-signal.SIGTERM, True)


@pytest.mark.parametrize(
    ("own_group", "groups", "expected"),
    [
        ("1:name=systemd:/x\n", {}, 900 * MB),
        ("0::/\n", {}, 900 * MB),
        ("0::/\n", {"": ("max", 5, 0)}, 900 * MB),
        ("0::/\n", {"": (300 * MB, 100 * MB, 0)}, 200 * MB),  # in a container
        ("0::/a/b\n", {"a": (500 * MB, 460 * MB, 30 * MB), "a/b": ("max", 1, 0)}, 70 * MB),
        ("0::/a\n", {"a": (500 * MB, 501 * MB, 0)}, 0),
    ],
)
def test_the_smallest_of_the_limits_counts(
    tmp_path: Path, own_group: str, groups: dict[str, tuple[str | int, int, int]], expected: int
) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(own_group)
    (proc / "meminfo").write_text("MemTotal: 9999999 kB\nMemAvailable:    921600 kB\n")
    for name, (limit, used, files) in groups.items():
        group = cgroups / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 1\ninactive_file {files}\n")
    assert available_memory(proc, cgroups) == expected


def test_a_system_that_does_not_say_has_no_limit(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path) is None
