"""What ranks had printed when their supervisor died."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.programs import place
from standins.runs.run_documents import run_document

from bootstrap.host.base import json_file
from bootstrap.host.output.kept_output import KeptOutput
from bootstrap.host.output.mpirun_output import framed
from bootstrap.host.output.rank_output import RunOutput, WriteErrors
from bootstrap.host.output.unread import main as add_unread
from railhead.documents.runs.run import Metric, RunDocument


def progress(step: int, seconds: int) -> bytes:
    """A record and a line, printed so many seconds after 1970."""
    time = b"\x19%d\x19" % (seconds * 1_000_000)
    return time + b'@railhead {"kind": "progress", "step": %d}\x1estep %d' % (step, step)


def broken_off(folder: Path, run: RunDocument, read: bytes, unread: bytes) -> None:
    """A run whose supervisor died when it had read only the first part of rank 0."""
    for name in ("results", "logs"):
        (folder / name).mkdir()
    json_file.save(str(folder / "run.json"), run)
    output, kept = RunOutput(str(folder), run, (), WriteErrors()), KeptOutput(str(folder), 0)
    for data in (read, unread):
        kept.add(data)
    os.write(output.source.descriptor, b"[1,0]<stdout>:" + framed(read))
    process: Any = SimpleNamespace(returncode=0)
    output.read(process)
    output.close_metrics()
    output.close()


def recorded(folder: Path) -> list[tuple[int, float]]:
    """(step, time) of the records of progress."""
    lines = map(json.loads, (folder / "results/metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["time"]) for line in lines if line["kind"] == "progress"]


def test_it_is_added_once_with_the_time_at_which_it_was_printed(tmp_path: Path) -> None:
    """Also a line of which only the beginning was read, with the time of that."""
    read = progress(1, 1000) + b"\x1e" + progress(2, 1001)[:-2]
    broken_off(tmp_path, run_document(), read, b" 2\x1e" + progress(3, 1002) + b"\x1e")
    log = tmp_path / "logs/rank-0.log"
    assert log.read_text() == "step 1\n" and len(recorded(tmp_path)) == 2
    for _ in range(2):
        add_unread(str(tmp_path))
        assert log.read_text() == "step 1\nstep 2\nstep 3\n"
        assert [step for step, _ in recorded(tmp_path)] == [1, 2, 3]
    assert recorded(tmp_path)[-1] == (3, 1002.0)


def test_numbers_in_it_are_found_and_count_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bootstrap.host.base.programs.ARCHIVE", str(place(tmp_path)))
    run = run_document(metrics=(Metric("loss", r"step (\d+)"),))
    broken_off(tmp_path, run, progress(1, 1000) + b"\x1e", progress(2, 1001) + b"\x1e")
    add_unread(str(tmp_path))
    lines = map(json.loads, (tmp_path / "results/metrics.jsonl").read_text().splitlines())
    values = [(line["value"], line["number"]) for line in lines if line["kind"] == "metric"]
    assert values == [(1.0, 1), (2.0, 2)]


@pytest.mark.parametrize("secrets", [(), ("TOKEN",)])
def test_lines_that_may_have_a_secret_are_left_out(
    tmp_path: Path, secrets: tuple[str, ...]
) -> None:
    """The supervisor alone had the values that are not written."""
    run = run_document(secrets=secrets)
    broken_off(tmp_path, run, progress(1, 1000) + b"\x1e", progress(2, 1001) + b"\x1e")
    add_unread(str(tmp_path))
    assert [step for step, _ in recorded(tmp_path)] == ([1] if secrets else [1, 2])
