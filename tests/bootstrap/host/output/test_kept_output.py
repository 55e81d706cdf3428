"""What a rank printed and mpirun did not pass on is read from the rank's own file, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.host.output import kept_output
from bootstrap.host.output.kept_output import KeptOutput, after
from bootstrap.host.output.mpirun_output import MpirunOutput, framed
from bootstrap.host.rank.rank import encoded

LINES = [f"step {number} of a rank".encode() for number in range(9)]
SENT = [encoded(line + b"]\n") for line in LINES]


def received(splitter: MpirunOutput, *pieces: bytes) -> list[tuple[int, bytes]]:
    """The lines that come from rank 1 beside one of rank 0, through mpirun."""
    tagged = b"".join(b"[1,0]<stdout>:" + framed(encoded(b"x")) for _ in pieces)
    tagged += b"".join(b"[1,1]<stdout>:" + framed(piece) for piece in pieces)
    return [*splitter.feed(tagged)]


def kept(folder: Path, splitter: MpirunOutput) -> bytes:
    """What the file of rank 1 has after what was received."""
    return after(str(folder), 1, splitter.counts.get(1, 0), splitter.lasts.get(1, b""))


@pytest.mark.parametrize("size", [20, 1 << 19])
@pytest.mark.parametrize("arrived", [7, 8, 9])
def test_what_did_not_arrive_is_read_after_what_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, arrived: int
) -> None:
    """Also where the file was begun anew meanwhile: there are two, with the last lines."""
    monkeypatch.setattr(kept_output, "SIZE", size)
    output, splitter = KeptOutput(str(tmp_path), 1), MpirunOutput()
    for piece in SENT:
        output.add(piece)
    lines = received(splitter, *SENT[:arrived], SENT[-1][:5] if arrived == 8 else b"")
    lines += splitter.of_rank(1, kept(tmp_path, splitter))
    assert lines == [(1, line + b"]") for line in LINES]


def test_a_file_that_does_not_go_on_from_what_arrived_is_not_read(tmp_path: Path) -> None:
    """Such as of a rank whose disk was full, or one that was changed."""
    output, splitter = KeptOutput(str(tmp_path), 1), MpirunOutput()
    for piece in SENT:
        output.add(piece)
    received(splitter, *SENT[:3], encoded(b"another line\n"))
    assert kept(tmp_path, splitter) == b""
    (tmp_path / "output-1").write_bytes(b"no number")
    assert kept(tmp_path, splitter) == b""


def test_an_earlier_attempt_leaves_nothing_to_read(tmp_path: Path) -> None:
    KeptOutput(str(tmp_path), 1).add(SENT[0])
    kept_output.remove(str(tmp_path))
    assert [*tmp_path.iterdir()] == [] and kept(tmp_path, MpirunOutput()) == b""
