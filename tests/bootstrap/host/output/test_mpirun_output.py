"""What mpirun prints: the lines of each rank, which host is silent, and who failed first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from places import CASES, ROOT

from bootstrap.host.output.mpirun_output import (
    FRAME,
    LIMIT,
    LONGEST_LINE,
    LONGEST_TAG,
    LONGEST_WAIT,
    MPIRUN,
    SILENCE,
    START,
    Heartbeats,
    MpirunFile,
    MpirunOutput,
    Verdict,
    framed,
    verdict,
)

MESSAGES = CASES / "mpirun"  # of OpenMPI 4.1.4; five-*: of 5.0.8 and 5.0.11


STREAMS = {
    "a line a rank": (b"[1,0]<stdout>:a\x1e[1,1]<stdout>:b\x1e", [(0, b"a"), (1, b"b")]),
    "two lines in one piece": (b"[1,1]<stdout>:a\x1eb\x1e", [(1, b"a"), (1, b"b")]),
    "a line in three pieces": (
        b"[1,1]<stdout>:hello[1,1]<stdout>: [1,1]<stdout>:1\x1e",
        [(1, b"hello 1")],
    ),
    "another rank between the pieces": (
        b"[1,0]<stdout>:lo[1,1]<stdout>:warning\x1e[1,0]<stdout>:ss\x1e",
        [(1, b"warning"), (0, b"loss")],
    ),
    "leading blanks are the program's": (b"[1,0]<stdout>:  x\x1e", [(0, b"  x")]),
    "an empty line": (b"[1,0]<stdout>:\x1e", [(0, b"")]),
    "a bracket is not a tag": (b"[1,0]<stdout>:[===>...]\x1e", [(0, b"[===>...]")]),
    "another OpenMPI's tag": (b"[prterun-h-1@1,3]<stdout>:x\x1e", [(3, b"x")]),
    "no end": (b"[1,0]<stdout>:last [", [(0, b"last [")]),
    "two without an end": (
        b"[1,1]<stdout>:a[1,0]<stdout>:b\x1e[1,2]<stdout>:c",
        [(0, b"b"), (1, b"a"), (2, b"c")],
    ),
    "what a login prints before the first tag is no rank's": (
        b"hi\nhi\n[1,1]<stdout>:c\x1e",
        [(-1, b"hi"), (-1, b"hi"), (1, b"c")],
    ),
    "two brackets before a tag": (b"[1,0]<stdout>:[[[1,1]<stdout>:x\x1e", [(1, b"x"), (0, b"[[")]),
}


@pytest.mark.parametrize("stream, lines", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_pieces_become_lines(stream: bytes, lines: list[tuple[int, bytes]], step: int) -> None:
    splitter = MpirunOutput()
    read: list[tuple[int, bytes]] = []
    for start in range(0, len(stream), step):
        read += splitter.feed(stream[start : start + step])
    assert [*read, *splitter.close()] == lines


@pytest.mark.parametrize("more, parts", [(0, []), (1, [(3, LONGEST_LINE + 1)])])
def test_an_endless_line_is_passed_on_in_parts(more: int, parts: list[tuple[int, int]]) -> None:
    splitter = MpirunOutput()
    read = list(splitter.feed(b"[1,3]<stdout>:" + b"x" * (LONGEST_LINE + more)))
    assert [(rank, len(text)) for rank, text in read] == parts
    rest = [*splitter.feed(b"yz\x1e"), *splitter.close()]
    assert [text[-2:] for _, text in rest] == [b"yz"]
    assert sum(len(text) for _, text in [*read, *rest]) == LONGEST_LINE + more + 2


def test_a_tag_says_nothing_of_the_rank_before_it() -> None:
    splitter = MpirunOutput()
    list(splitter.feed(b"[1,1]<stdout>:a"))
    assert splitter.active == {1}
    splitter.active.clear()
    list(splitter.feed(b"[1,2]<stdout>:b"))
    assert splitter.active == {2}
    list(splitter.feed(b"c"))
    assert splitter.unfinished == {1: b"a", 2: b"bc"}


STAMPED = (
    b"[1,0]<stdout>:\x191000000\x19be[1,1]<stdout>:\x197000000\x19x\x1e"
    b"[1,0]<stdout>:\x192000000\x19gin\x1enext\x1e[1,0]<stdout>:\x193000000\x19half"
)


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_line_has_the_time_at_which_its_end_was_printed(step: int) -> None:
    splitter, stamped = MpirunOutput(), []
    for start in range(0, len(STAMPED), step):
        for rank, line in splitter.feed(STAMPED[start : start + step]):
            stamped.append((rank, line, splitter.printed[rank]))
    assert stamped == [(1, b"x", 7.0), (0, b"begin", 2.0), (0, b"next", 2.0)]
    assert splitter.unfinished_lines()[0] == b"half"
    assert [*splitter.close()] == [(0, b"half")] and splitter.printed[0] == 3.0


def test_a_bracket_is_held_back_only_while_it_may_become_a_tag() -> None:
    splitter = MpirunOutput()
    list(splitter.feed(b"[1,0]<stdout>:[" + b"=" * 10))
    assert splitter.unfinished == {0: b""}
    list(splitter.feed(b"=" * LONGEST_TAG))
    assert splitter.unfinished == {0: b"[" + b"=" * (10 + LONGEST_TAG)}


def test_what_was_passed_on_is_not_kept() -> None:
    splitter = MpirunOutput()
    for line in (b"a", b"ba", b"ba"):
        assert list(splitter.feed(b"[1,1]<stdout>:a\x1eb")) == [(1, line)]
    assert splitter.unfinished == {1: b"b"} and splitter.raw == b""
    assert list(splitter.close()) == [(1, b"b")] and list(splitter.close()) == []


FRAMES = framed(b"ab") + framed(b"c\x1e")


@pytest.mark.parametrize("step", [1, 7, FRAME, 10_000])
def test_frames_come_through_each_series_of_open_mpi(step: int) -> None:
    """4.1 cuts them anywhere, with a tag each time and for each line; 5.0 has a blank behind it."""
    cuts = (0, 300, FRAME, FRAME + 88, 2 * FRAME)
    pieces = [FRAMES[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
    four = b"".join(b"[1,0]<stdout>:" + piece for piece in pieces)
    tag = b"[1,0]<stdout>: "
    five = tag + FRAMES[:FRAME] + tag + FRAMES[FRAME:] + b"a message\nof mpirun\n" + tag
    for stream, messages in ((four, []), (five + framed(b"d\x1e"), [b"a message", b"of mpirun"])):
        splitter = MpirunOutput()
        read: list[tuple[int, bytes]] = []
        for start in range(0, len(stream), step):
            read += splitter.feed(stream[start : start + step])
        read += splitter.close()
        assert [text for rank, text in read if rank == MPIRUN] == messages
        assert [text for rank, text in read if rank == 0] == [b"abc", b"d"][: 1 + bool(messages)]


@pytest.mark.parametrize("length", [0, 1, FRAME - 2, FRAME - 1, 3 * FRAME])
def test_each_frame_has_the_same_length_and_one_newline(length: int) -> None:
    data = framed(b"x" * length)
    frames = [data[i : i + FRAME] for i in range(0, len(data), FRAME)]
    assert len(data) % FRAME == 0 and bool(data) == bool(length)
    assert all(frame.index(b"\n") == FRAME - 1 for frame in frames)
    assert b"".join(frames).count(b"x") == length


def test_what_was_read_of_the_file_takes_no_memory() -> None:
    """A reader that is late, as under load, loses nothing: Open MPI 5 drops what a pipe holds."""
    source = MpirunFile()
    data = b"0123456789abcdef" * 65536
    for count in (1, 2):
        os.write(source.descriptor, data)
        assert b"".join(iter(source.read, b"")) == data
        assert os.fstat(source.descriptor).st_size == count * len(data)
        assert os.fstat(source.descriptor).st_blocks * 512 < len(data) / 8
    source.close()


LOUD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from bootstrap.host.rank import rank
rank.redirect_output(b"", rank.Heartbeat())
for i in range(20000):
    print("line", i, file=sys.stderr if i % 2 else sys.stdout)
sys.stdout.flush()
"""


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_a_real_mpirun_loses_no_line_of_two_loud_ranks() -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    argv = ["mpirun", "--oversubscribe", "-np", "2", "--tag-output", sys.executable, "-c", LOUD]
    environment = {**os.environ, **root, "PYTHONUNBUFFERED": "1"}
    argv.append(str(ROOT))
    out = subprocess.run(argv, env=environment, capture_output=True).stdout
    splitter = MpirunOutput()
    by_rank: dict[int, list[bytes]] = {0: [], 1: []}
    for rank, line in [*splitter.feed(out), *splitter.close()]:
        by_rank[rank].append(line)
    printed = [b"line %d" % i for i in range(20000)]
    assert by_rank == {0: printed, 1: printed}


# --- Silence -----------------------------------------------------------------------------

BOTH, FIRST, SECOND = (0, 1, 2), (0, 1), (2,)  # ranks: two on the chief, one on the other host


def heartbeats(*received: tuple[int, ...]) -> Heartbeats:
    """Two hosts after a minute in which these ranks sent something."""
    beats = Heartbeats([2, 1])
    beats.received(BOTH)
    for _ in range(int(SILENCE)):
        beats.waited(1.0)
        for ranks in received:
            beats.received(ranks)
    return beats


def test_the_host_that_was_silent_is_the_lost_one() -> None:
    assert heartbeats(BOTH).lost() is None
    assert heartbeats(FIRST).lost() == 1
    assert heartbeats(SECOND).lost() == 0
    alone = heartbeats((1,), SECOND)
    assert (alone.lost(), alone.silent_alone(0)) == (0, 0), "the helper of rank 0 has ended"
    assert heartbeats(SECOND).silent_alone(0) is None, "all of its ranks are silent"


def test_the_ranks_that_another_thread_counts_do_not_change_under_it() -> None:
    beats = Heartbeats([2, 1])
    going = iter(beats.going)
    next(going)
    beats.ended(SECOND)
    assert len([*going]) == 2 and beats.going == {*FIRST}


def test_silence_of_all_hosts_is_that_of_the_chiefs_mpirun() -> None:
    assert heartbeats().lost() == 0


@pytest.mark.parametrize("last", [FIRST, (0,), SECOND])
def test_ranks_that_fall_silent_together_are_lost_together(last: tuple[int, ...]) -> None:
    """Some beat up to five seconds before the others."""
    beats = Heartbeats([2, 1])
    beats.received(BOTH)
    for _ in range(4):
        beats.waited(1.0)
    beats.received(last)
    for second in range(int(SILENCE) - 4):
        assert beats.lost() is None, second
        beats.waited(1.0)
    assert (beats.lost(), beats.silent_alone(0)) == (0, None)


def test_a_host_whose_ranks_have_ended_may_be_silent() -> None:
    beats = heartbeats(FIRST)
    beats.ended(SECOND)
    assert beats.lost() is None


def test_the_time_in_which_the_supervisor_itself_was_stopped_is_not_silence() -> None:
    beats = Heartbeats([1, 1])
    beats.received((0, 1))
    beats.waited(10 * SILENCE)
    assert beats.silent == {0: LONGEST_WAIT, 1: LONGEST_WAIT}


def test_the_first_heartbeat_may_take_longer() -> None:
    beats = Heartbeats([1])
    for second in range(int(START)):
        assert beats.lost() is None, second
        beats.waited(1.0)
    assert beats.lost() == 0


def test_a_heartbeat_is_not_part_of_a_line() -> None:
    splitter = MpirunOutput()
    pieces = b"[1,0]<stdout>:50 %" + b"[1,1]<stdout>:\x1d" + b"[1,0]<stdout>:\x1d, 60 %\x1e"
    assert list(splitter.feed(pieces)) == [(0, b"50 %, 60 %")]
    assert (splitter.active, splitter.ended) == ({0, 1}, set())
    assert list(splitter.feed(b"[1,1]<stdout>:bye\x1e\x1c")) == [(1, b"bye")]
    assert splitter.ended == {1}


def test_a_rank_that_no_host_has_is_ignored() -> None:
    beats = Heartbeats([1, 1])
    beats.received((2, 99))
    assert set(beats.limits.values()) == {START}


def test_output_of_one_host_says_nothing_of_the_start_of_another() -> None:
    beats = Heartbeats([1, 1])
    beats.received((0,))
    for _ in range(int(SILENCE)):
        beats.waited(LONGEST_WAIT)
        beats.received((0,))
    assert beats.lost() is None and beats.limits == {0: SILENCE, 1: START}


# --- The first failure -------------------------------------------------------------------


RECORDED = {
    "abort": Verdict("abort", rank=1, code=7),
    "exit": Verdict("exit", rank=1, code=3),
    "exit-after-init": Verdict("exit", rank=1, code=5),
    "improper": Verdict("improper", rank=1, code=0),
    "five-abort": Verdict("aborted", rank=1),
    "five-exit": Verdict("exit", rank=1, code=3),
    "five-improper": Verdict("improper", rank=1, code=0),
    "five-lost": Verdict("lost", present=1),
    "five-no-program": None,
    "five-signal": Verdict("signal", rank=1, code=9),
    "five-unreachable": None,
    "lost": Verdict("lost", present=1),
    "no-program": None,
    "segfault": Verdict("signal", rank=1, code=11),
    "signal": Verdict("signal", rank=1, code=9),
    "unnamed": None,
    "unreachable": None,
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_failure_has_a_first_one(name: str) -> None:
    text = (MESSAGES / f"{name}.txt").read_text()
    assert verdict(text) == RECORDED[name]
    assert verdict(" ".join(text.splitlines())) == RECORDED[name]


def test_every_recorded_failure_is_a_case() -> None:
    assert {path.stem for path in MESSAGES.iterdir()} == set(RECORDED)


def test_of_two_failures_the_first_counts() -> None:
    killed, lost = ((MESSAGES / f"{name}.txt").read_text() for name in ("signal", "lost"))
    assert verdict(killed + lost) == RECORDED["signal"]
    assert verdict(lost + killed) == RECORDED["lost"]


def test_a_message_that_ends_with_the_host_counts() -> None:
    assert verdict("Remote daemon: [[1,0],12] on node b") == Verdict("lost", present=11)


def test_only_the_begin_of_endless_messages_is_searched() -> None:
    last = "Process name: [[1,1],4] Exit code: 3"
    assert verdict("x" * (LIMIT - len(last)) + last) == Verdict("exit", rank=4, code=3)
    assert verdict("x" * LIMIT + last) is None
