"""Causes of failures: what the last lines, the kernel of the host and the end of a rank show."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from places import CASES
from standins import programs
from standins.runs.supervised_run import Run, says

from bootstrap.remote.attempts import causes, cgroups, evidence
from bootstrap.remote.attempts.causes import Failure, diagnosed
from bootstrap.remote.attempts.retry import ALWAYS, NEVER, REPEATED
from railhead.documents.runs.cause import KINDS
from railhead.documents.runs.result import Culprit

LINES = {
    "ValueError: no data": ("program", REPEATED),
    "mypackage.errors.BrokenThingError: no": ("program", REPEATED),
    "ModuleNotFoundError: No module named 'pandas'": ("program", NEVER),
    "ImportError: cannot import name 'x' from 'y'": ("program", NEVER),
    "SyntaxError: invalid syntax": ("program", NEVER),
    "the loss of step 7 is not a number on rank 1: lower learning_rate": ("program", NEVER),
    "train.py: error: unrecognized arguments: --epochz": ("usage", NEVER),
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'": ("data", NEVER),
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'": ("data", NEVER),
    "DataLossError: corrupted record at 12": ("data", REPEATED),
    "OSError: [Errno 28] No space left on device": ("disk", NEVER),
    "OSError: [Errno 5] Input/output error": ("disk", REPEATED),
    "MemoryError: Unable to allocate 8 GiB": ("memory", REPEATED),
    "ResourceExhaustedError: OOM when allocating tensor": ("memory", REPEATED),
    "horovod.common.exceptions.HorovodInternalError: Connection reset": ("network", ALWAYS),
    "ConnectionRefusedError: [Errno 111] Connection refused": ("network", REPEATED),
    "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error": ("gpu", ALWAYS),
    "a line that no row knows": ("program", REPEATED),
}


@pytest.mark.parametrize("line, expected", LINES.items())
def test_the_last_line_that_a_row_knows_decides(line: str, expected: tuple[str, str]) -> None:
    lines = ("ConnectionResetError: an older one", line, "", "Epoch 3: done")
    result = diagnosed(Failure(Culprit(1, "b", lines, exit=1)))
    known = line != "a line that no row knows"
    assert (result.cause.class_, result.retry) == (expected if known else ("network", REPEATED))
    assert (result.cause.rank, result.cause.host) == (1, "b")
    if known:
        assert result.cause.evidence == line


def test_an_exception_of_a_function_of_tensorflow_is_the_one_inside() -> None:
    inside = "    TypeError: Binding inputs to tf.function failed"
    lines = ("TypeError: in user code:", "", '    File "t.py", line 3, in step  *', inside, "")
    culprit = Culprit(1, "b", lines, exit=1)
    assert diagnosed(Failure(culprit)).cause.evidence == inside.strip()
    assert culprit.reason == inside


ENDS = {
    "an exit": (Culprit(0, "a", (), exit=3), "program", REPEATED, "exited with 3"),
    "a wrong option": (Culprit(0, "a", ("what it says",), exit=2), "usage", NEVER, "exited with 2"),
    "a kill": (Culprit(0, "a", ("KeyError: 1",), signal=9), "host", ALWAYS, "killed by signal 9"),
    "a crash": (Culprit(0, "a", (), signal=11), "program", REPEATED, "killed by signal 11"),
    "an abort that says why": (
        Culprit(0, "a", ("terminate called: std::bad_alloc",), signal=6),
        "memory",
        REPEATED,
        "terminate called: std::bad_alloc",
    ),
    "a lost host": (Culprit(None, "b", ("TCP: Connection reset",)), "host", ALWAYS, "lost"),
    "a silent host": (
        Culprit(None, "b", ("no heartbeat of its ranks for 60 s: the host hangs",)),
        "host",
        ALWAYS,
        "no heartbeat of its ranks for 60 s: the host hangs",
    ),
    "mpirun itself": (Culprit(None, None, ("?",)), "program", REPEATED, "mpirun failed"),
}


@pytest.mark.parametrize("culprit, class_, retry, shown", ENDS.values(), ids=ENDS)
def test_otherwise_how_it_ended_decides(
    culprit: Culprit, class_: str, retry: str, shown: str
) -> None:
    result = diagnosed(Failure(culprit))
    assert (result.cause.class_, result.retry, result.cause.evidence) == (class_, retry, shown)


OF_MPIRUN = {"unreachable": "network", "no-program": "usage", "unnamed": "program"}


@pytest.mark.parametrize("name, class_", OF_MPIRUN.items())
def test_messages_of_mpirun_have_a_cause(name: str, class_: str) -> None:
    lines = [x for x in (CASES / f"mpirun/{name}.txt").read_text().splitlines() if x][:12]
    assert diagnosed(Failure(Culprit(None, None, tuple(lines)))).cause.class_ == class_


LOG = """\
[    1.300000] Linux version 6.1
[  900.000000] Out of memory: Killed process 1 (older) total-vm:1kB
[ 1000.500000] Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB
[ 1001.000000] NVRM: Xid (PCI:0000:00:04): 45, pid=77, name=python3
[ 1002.000000] NVRM: Xid (PCI:0000:00:04): 79, pid=77, GPU has fallen off the bus.
[ 1003.000000] usb 1-1: new device
"""


def test_records_of_the_kernel_come_before_the_lines() -> None:
    records = evidence.kernel_lines(LOG, since=950)
    assert [line[1:12].strip() for line in records] == ["1000.50000", "1002.00000"]
    killed = Culprit(1, "b", ("KeyError: 1",), signal=9)
    assert diagnosed(Failure(killed, records)).cause.class_ == "memory"
    gpu = diagnosed(Failure(Culprit(1, "b", ("KeyError: 1",), exit=1), records))
    assert (gpu.cause.class_, gpu.retry, gpu.cause.evidence) == ("gpu", ALWAYS, records[1])
    harmless = records[1].replace(": 79,", ": 31,")
    assert diagnosed(Failure(killed, [harmless])).cause.class_ == "program"
    assert diagnosed(Failure(killed, [], ["no space is left in /dev/shm"])).cause.class_ == "disk"


def test_a_cgroup_that_ran_out_of_memory_is_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = tmp_path / "memory.events"
    counts.write_text("low 0\noom_kill 2\n")
    monkeypatch.setattr(cgroups, "cgroup_files", lambda: iter([str(counts), "/nowhere"]))
    cgroups.note_cgroup(str(tmp_path), 1)
    assert [*cgroups.grown_cgroups(str(tmp_path))] == []
    counts.write_text("low 0\noom_kill 3\n")
    (line,) = cgroups.grown_cgroups(str(tmp_path))
    killed = diagnosed(Failure(Culprit(1, "b", (), signal=9), [line]))
    assert killed.cause.class_ == "memory" and "from 2 to 3" in killed.cause.evidence


def test_the_result_of_a_real_run_has_its_cause(home: Path) -> None:
    """On the chief evidence is read by the real program; its kernel knows nothing of this run."""
    ended = says(0, '@railhead {"kind": "ended", "exit": 1}')
    run = Run(home, f"{says(0, 'KeyError: 7')}; {ended}; exit 1")
    result = run.result()
    assert result["cause"]["class"] == "program" and result["cause"]["evidence"] == "KeyError: 7"
    assert run.read("state.json")["cause"] == result["cause"]
    assert json.loads(
        subprocess.run(
            programs.command(run.folder, "attempts.evidence", "r1", "5"),
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
            check=True,
            capture_output=True,
        ).stdout
    ) == {"kernel": [], "space": []}


def test_every_class_has_a_row() -> None:
    assert {row.class_ for row in causes.ROWS} == {*KINDS}
