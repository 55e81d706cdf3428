"""The last lines of a rank: one that it has not ended, and those that say why it failed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.console.wait import wait_until
from bootstrap.host.causes.causes import Failure, diagnosed
from bootstrap.host.output import rank_output
from bootstrap.host.output.mpirun_output import MPIRUN
from bootstrap.host.output.rank_output import TAIL, LogFile, RunOutput, WriteErrors
from railhead.documents.runs.result import Culprit


@pytest.fixture
def output(tmp_path: Path) -> RunOutput:
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    return RunOutput(str(tmp_path), run_document(), (), WriteErrors())


def test_the_last_state_of_a_progress_bar_is_known_while_nothing_follows(output: RunOutput) -> None:
    """Also if it comes just after another line: states are not computed for each piece."""
    process: Any = SimpleNamespace(returncode=None)
    reader = Thread(target=output.read, args=(process,))
    reader.start()
    os.write(output.source.descriptor, b"[1,0]<stdout>:begins\x1e")
    assert wait_until(lambda: output.logs[0].lines() == ["begins"], seconds=60, every=0.001)
    os.write(output.source.descriptor, b"[1,0]<stdout>:10 %\r90 %")
    assert wait_until(lambda: output.unfinished == {"0": "90 %"}, seconds=60, every=0.01)
    process.returncode = 0
    reader.join(60)
    assert not reader.is_alive() and output.broken is None


@pytest.mark.parametrize(("before", "kept"), [("a\nb", "a\nb\n"), ("a\n", "a\n"), ("", "")])
def test_a_log_continues_on_a_new_line_after_one_that_was_cut(
    tmp_path: Path, before: str, kept: str
) -> None:
    path = tmp_path / "rank.log"
    path.write_text(before)
    log = LogFile(str(path), WriteErrors())
    log.add(b"next")
    assert path.read_text() == f"{kept}next\n" and log.size == len(path.read_text())


@pytest.mark.parametrize("after", ["nothing", "a folder", "a file"])
def test_a_log_whose_folder_the_program_removes_is_written_again(
    tmp_path: Path, after: str
) -> None:
    """As by a script that empties its folder of results first; a file of its own stays."""
    path = tmp_path / "results/metrics.jsonl"
    path.parent.mkdir()
    errors = WriteErrors()
    log = LogFile(str(path), errors)
    log.add(b"1")
    shutil.rmtree(path.parent)
    if after != "nothing":
        path.parent.mkdir()
    if after == "a file":
        path.write_text("of the program")
    for line in (b"2", b"3"):
        log.add(line)
    log.close()
    assert path.read_text() == ("of the program" if after == "a file" else "1\n2\n3\n")
    assert [*path.parent.iterdir()] == [path] and errors.summary() is None


FIRST = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nKeyError: 1\n'
LAST = FIRST.replace("KeyError: 1", "keras.Error: the rule is:")
TEXT = "\n".join(f"    line {n} of an example" for n in range(TAIL + 10))


@pytest.mark.parametrize(
    ("printed", "first", "evidence"),
    [
        (f"{FIRST}during which:\n{LAST}{TEXT}", "keras.Error: the rule is:", "keras.Error"),
        (f"{LAST[:-14]}\n\n{TEXT}", "keras.Error: line 0", "keras.Error: line 0"),
        (f"{TEXT}\n{LAST}shorter", f"    line {14} of an example", "keras.Error"),
        (f"{LAST}{TEXT}\n{TEXT}", f"    line {10} of an example", "exited with 1"),
        (TEXT, f"    line {10} of an example", "exited with 1"),
        ("Traceback (most recent call last):", "Traceback", "exited with 1"),
    ],
    ids=[
        "long text",
        "text on the next lines",
        "short text",
        "long before",
        "no exception",
        "no end",
    ],
)
def test_the_exception_is_kept_before_the_last_lines_of_its_text(
    tmp_path: Path, printed: str, first: str, evidence: str
) -> None:
    log = LogFile(str(tmp_path / "rank.log"), WriteErrors())
    for line in printed.splitlines():
        log.add(line.encode())
    lines = log.lines()
    log.close()
    assert lines[0].startswith(first) and lines[-TAIL:] == printed.splitlines()[-TAIL:]
    cause = diagnosed(Failure(Culprit(0, "h1", tuple(lines), exit=1))).cause
    assert cause.class_ == "program" and cause.evidence.startswith(evidence)


def test_the_log_of_each_rank_and_of_mpirun_has_two_parts_at_most(
    tmp_path: Path, output: RunOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of a run are kept whole."""
    monkeypatch.setattr(rank_output, "LOG_LIMIT", 15)
    ranks = (MPIRUN, 0)
    for rank in ranks:
        output.logs[rank] = output.open_log(rank)
        for number in range(9):
            output.logs[rank].add(f"line {number}".encode())
            output.metrics.add(f"{number}".encode())
    parts = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    names = [f"{name}.log{part}" for name in ("mpirun", "rank-0") for part in ("", ".1")]
    assert sorted(parts) == sorted(names)
    assert {parts["rank-0.log"], parts["mpirun.log"]} == {"line 6\nline 7\nline 8\n"}
    assert len((tmp_path / "results/metrics.jsonl").read_text().split()) == 9 * len(ranks)
