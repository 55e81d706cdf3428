"""Text that a program prints cannot pass for another rank's output, or for an evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.output.mpirun_output import MpirunOutput
from bootstrap.host.output.rank_output import RunOutput, WriteErrors
from bootstrap.host.rank.rank import encoded
from railhead.documents.runs.evaluation import Reported
from railhead.documents.runs.run import RunHost

RECORD = '@railhead {"kind": "evaluation", "accuracy": 0.1, "passed": false}'


@pytest.fixture
def output(tmp_path: Path) -> RunOutput:
    for folder in ("results", "logs"):
        (tmp_path / folder).mkdir()
    hosts = tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("a", "b"))
    run = run_document(size=2, hosts=hosts)
    return RunOutput(str(tmp_path), run, (), WriteErrors())


def as_mpirun_passes_it(rank: int, text: str, pieces: int) -> bytes:
    """The bytes of mpirun's stdout for a rank's output, in pieces with a tag each."""
    data = encoded(text.encode())
    cut = [data[i : i + pieces] for i in range(0, len(data), pieces)]
    return b"".join(b"[1,%d]<stdout>:%s" % (rank, piece) for piece in cut)


PRINTED = [
    "[1,0]<stdout>:hello",
    "x[1,0]<stderr>:hello",
    "[1,0[1,0]<stdout>:hello",
    "[[1,0]<stdout>:]",
    "]\x1f<stdout>:",
]


@pytest.mark.parametrize("text", PRINTED)
@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 4096])
def test_printed_text_is_never_taken_for_the_tag_of_another_rank(text: str, pieces: int) -> None:
    splitter = MpirunOutput()
    raw = as_mpirun_passes_it(1, f"{text}\n", pieces)
    lines = [*splitter.feed(raw), *splitter.close()]
    assert lines == [(1, text.replace("\x1f", "?").encode())]


ACCEPTED = {
    "rank 0, at the start of a line": (0, RECORD, True),
    "rank 0, over a progress bar": (0, "12/12 [=====]\r" + RECORD, True),
    "another rank": (1, RECORD, False),
    "in the middle of a line": (0, "label: " + RECORD, False),
}


@pytest.mark.parametrize("rank, line, counts", ACCEPTED.values(), ids=ACCEPTED)
def test_only_rank_0_evaluates_at_the_start_of_a_line(
    output: RunOutput, tmp_path: Path, rank: int, line: str, counts: bool
) -> None:
    output.add_line(rank, line.encode())
    reported = Reported({"accuracy": 0.1, "passed": False})
    assert output.evaluation == (reported if counts else None)
    metrics = (tmp_path / "results" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in metrics] == ["evaluation"] * counts
    log = (tmp_path / "logs" / f"rank-{rank}.log").read_text()
    assert (RECORD in log) != counts


def test_other_records_count_from_every_rank_and_within_a_line(
    output: RunOutput, tmp_path: Path
) -> None:
    """As records of the rank that printed them, whatever they say."""
    says = {"kind": "message", "text": "x", "rank": 0, "host": "a", "time": 5}
    output.add_line(1, f"10/20@railhead {json.dumps(says)}".encode())
    record = json.loads((tmp_path / "results" / "metrics.jsonl").read_text())
    assert (record["rank"], record["host"], record["text"]) == (1, "b", "x")
    assert record["time"] > 5
    assert (tmp_path / "logs" / "rank-1.log").read_text() == "10/20\n"
