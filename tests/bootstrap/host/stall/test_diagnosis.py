"""Who is behind, how sure that is, and the sentence: from the stacks and counts of all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import bounded
from standins.runs.run_documents import run_document

from bootstrap.host.stall.behind import CROWDED, LIKELY, POSSIBLE, ROWS, STOPPED, SURE
from bootstrap.host.stall.collect import Sample
from bootstrap.host.stall.diagnosis import Diagnosis, diagnosed
from bootstrap.host.stall.frames import parsed
from railhead.documents.runs.run import Role, RunHost

WORK = "/home/ann/.railhead/runs/r1/work/"
LIB = "/usr/lib/python3.11/"
SITE = "/home/ann/.railhead/envs/0f3a/lib/python3.11/site-packages/"
RUN = run_document(
    hosts=(RunHost("h1", "10.0.0.1", None, 2), RunHost("h2", "10.0.0.2", None, 1)), size=3
)
SOURCE = {
    ("train.py", 12): "hvd.allreduce(gradient)",
    ("train.py", 20): "model.fit(data)",
    ("train.py", 30): "open(path).read()",
    ("train.py", 40): "total = hvd.allgather(loss)",
    ("train.py", 50): "row = queue.get()",
    ("train.py", 60): "comm.Barrier()",
}
OUTER = [f"{WORK}train.py:99 <module>", "/home/ann/runs/railhead.pyz/host/rank/rank.py:63 main"]


def stack(*threads: list[str]) -> str:
    """What faulthandler writes of threads, the main thread first: frames as FILE:LINE NAME."""
    texts = []
    for number, frames in reversed([*enumerate(threads)]):
        head = "Thread" if number else "Current thread"
        lines = [f"{head} 0x{number:016x} (most recent call first):"]
        for frame in frames:
            place, _, name = frame.partition(" ")
            file, _, line = place.rpartition(":")
            lines.append(f'  File "{file}", line {line} in {name}')
        texts.append("\n".join(lines))
    return "\n\n".join(texts) + "\n"


def at(line: int, *inner: str) -> list[str]:
    """The stack of a thread at a line of the program, inside these library calls."""
    return [*inner, f"{WORK}train.py:{line} work", *OUTER]


ALLREDUCE = stack(
    at(12, "<string>:108 horovod_allreduce", f"{SITE}horovod/tensorflow/mpi_ops.py:123 _allreduce",
       f"{SITE}horovod/tensorflow/__init__.py:129 allreduce")
)  # fmt: skip
ALLGATHER = stack(
    at(40, "<string>:60 horovod_allgather", f"{SITE}horovod/tensorflow/mpi_ops.py:241 allgather")
)
FIT = stack(
    at(20, f"{SITE}tensorflow/python/eager/execute.py:53 quick_execute",
       f"{SITE}keras/src/backend/tensorflow/trainer.py:371 fit")
)  # fmt: skip
SAVE = stack(at(70, f"{SITE}h5py/_hl/files.py:600 close",
                f"{SITE}keras/src/saving/saving_lib.py:160 save_model"))  # fmt: skip
OPEN = stack(at(30))
WAITS = stack(at(50, f"{LIB}threading.py:327 wait", f"{LIB}queue.py:171 get"))
NEXT = [f"{SITE}tensorflow/python/data/ops/iterator_ops.py:773 _next_internal"]
INPUT = stack(at(20, *NEXT))
GENERATOR = stack(
    at(20, *NEXT),
    [f"{LIB}queue.py:171 get", f"{WORK}train.py:50 rows",
     f"{SITE}tensorflow/python/ops/script_ops.py:270 __call__"],
)  # fmt: skip
JOINED = stack(
    at(20, f"{LIB}threading.py:1132 _wait_for_tstate_lock",
       f"{LIB}threading.py:1112 join"),
    at(30),
)  # fmt: skip
SERVES = stack(at(20, f"{SITE}tensorflow/python/training/server_lib.py:149 join"))
IDLE = Sample(0, 100, 10.0, "S", 0.0, 0.1, 0.0, 0, 0, "futex_do_wait")


def sample(*stacks: str, **changes: Any) -> Sample:
    """A rank that waits at the same place all the time; two texts are those of two moments."""
    return replace(IDLE, stacks=(stacks[0], stacks[-1]), **changes)


BUSY = {"cpu": 9.9, "process_cpu": 9.9, "state": "R"}
# The three ranks; who is behind; how sure; and words of the sentence.
CASES: dict[str, tuple[list[Sample | None], tuple[int, ...], int, str]] = {
    "a rank opens a file": (
        [sample(ALLREDUCE), sample(ALLREDUCE), sample(OPEN)],
        *((2,), SURE, "rank 2 on h2 has been in train.py:30 `open(path).read()` for 74 s; "
          "ranks 0-1 wait for it in allreduce (train.py:12)"),
    ),
    "the others are in a step of TensorFlow": (
        [sample(FIT), sample(WAITS), sample(FIT)],
        *((1,), SURE, "rank 1 on h1 has been in train.py:50 `row = queue.get()` for 74 s; "
          "ranks 0, 2 wait for it in TensorFlow (train.py:20)"),
    ),
    "the others compute in TensorFlow": (
        [sample(FIT, **BUSY), sample(WAITS), sample(FIT, **BUSY)], (1,), LIKELY, "rank 1 on h1"
    ),
    "a rank looks for a file again and again": (
        [sample(ALLREDUCE), sample(OPEN, switches=50, wait="hrtimer_nanosleep"), sample(ALLREDUCE)],
        (1,), SURE, "rank 1 on h1",
    ),
    "a rank gets data now and then": (
        [sample(ALLREDUCE), sample(OPEN, switches=50, wait="sk_wait_data"), sample(ALLREDUCE)],
        (1,), LIKELY, "rank 1 on h1",
    ),
    "a rank writes a file": (
        [sample(ALLREDUCE), sample(OPEN, bytes=4096), sample(ALLREDUCE)], (1,), POSSIBLE, "rank 1",
    ),
    "a rank saves a model by Keras, and the others wait": (
        [sample(ALLREDUCE), sample(SAVE, bytes=300_000_000), sample(ALLREDUCE)],
        (1,), POSSIBLE, "rank 1",
    ),
    "a rank saves a model, and the others are at their end": (
        [sample(SAVE, bytes=300_000_000), sample(OPEN), sample(OPEN)], (0,), POSSIBLE, "rank 0",
    ),
    "a rank saves a model to a disk that does not answer": (
        [sample(ALLREDUCE), sample(SAVE, state="D"), sample(ALLREDUCE)], (1,), LIKELY, "rank 1",
    ),
    "a rank waits for a disk": (
        [sample(ALLREDUCE), sample(OPEN, state="D"), sample(ALLREDUCE)], (1,), LIKELY, "rank 1",
    ),
    "a rank computes": (
        [sample(ALLREDUCE), sample(OPEN, **BUSY), sample(ALLREDUCE)], (1,), POSSIBLE, "train.py:30",
    ),
    "a rank waits for a child that works": (
        [sample(ALLREDUCE), sample(OPEN, child_cpu=2.0), sample(ALLREDUCE)],
        (1,), POSSIBLE, "rank 1",
    ),
    "a rank is at another line than before": (
        [sample(ALLREDUCE), sample(OPEN, WAITS), sample(ALLREDUCE)], (1,), POSSIBLE, "train.py:50",
    ),
    "a rank is stopped": (
        [sample(ALLREDUCE), sample("", state="T"), sample(ALLREDUCE)],
        (1,), SURE, "rank 1 on h1 has been stopped (SIGSTOP, or a debugger) for 74 s; ranks 0, 2",
    ),
    "a debugger has a rank": (
        [sample(ALLREDUCE), sample("", state="t"), sample(ALLREDUCE)], (1,), POSSIBLE, "a debugger",
    ),
    "a rank has ended": (
        [sample(ALLREDUCE), None, sample(ALLREDUCE)],
        (1,), SURE, "rank 1 on h1 has ended; ranks 0, 2"
    ),
    "only one rank has not ended": (
        [None, None, sample(OPEN, **BUSY)],
        *((2,), POSSIBLE, "rank 2 on h2 has been in train.py:30 `open(path).read()` for 74 s; "
          "ranks 0-1 have ended"),
    ),
    "a rank does not answer": (
        [sample(ALLREDUCE), sample(""), sample(ALLREDUCE)],
        (1,), LIKELY, "rank 1 on h1 has been without an answer (futex_do_wait) for 74 s",
    ),
    "a rank has left the loop of the others": (
        [sample(ALLREDUCE), sample(ALLGATHER), sample(ALLREDUCE)],
        (1,), SURE, "rank 1 on h1 has been in train.py:40 `total = hvd.allgather(loss)` (all",
    ),
    "all are in the same step": (
        [sample(FIT)] * 3, (), LIKELY,
        "all 3 ranks have been in train.py:20 `model.fit(data)` for 74 s, and none is behind",
    ),
    "all compute in the same step": ([sample(FIT, **BUSY)] * 3, (), POSSIBLE, "none is behind"),
    "a rank waits for its input": (
        [sample(FIT), sample(INPUT), sample(FIT)],
        (1,), LIKELY, "`model.fit(data)` (input) for 74 s"
    ),
    "all wait for their input, one at another line": (
        [sample(INPUT), sample(stack(at(30, *NEXT))), sample(INPUT)], (1,), LIKELY, "train.py:30",
    ),
    "an endless pipeline": (
        [sample(FIT), sample(INPUT, process_cpu=19.0), sample(FIT)], (1,), POSSIBLE, "(input)"
    ),
    "a generator that TensorFlow calls": (
        [sample(FIT), sample(GENERATOR), sample(FIT)],
        (1,), LIKELY, "train.py:50 `row = queue.get()`"
    ),
    "a thread that the main thread waits for": (
        [sample(ALLREDUCE), sample(JOINED), sample(ALLREDUCE)],
        (1,), SURE, "train.py:30 `open(path)"
    ),
    "a barrier of MPI": (
        [sample(stack(at(60))), sample(OPEN), sample(stack(at(60)))],
        (1,), SURE, "ranks 0, 2 wait for it in Barrier (train.py:60)",
    ),
    "a rank may only look idle, because its host has much more work": (
        [sample(ALLREDUCE), sample(OPEN, crowded=True), sample(ALLREDUCE)], (1,), CROWDED, "rank 1",
    ),
    "all ranks sleep": ([sample(OPEN)] * 3, (), LIKELY, "all 3 ranks have been in train.py:30"),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "behind", "factor", "words"), CASES.values(), ids=CASES)
def test_the_rank_that_is_behind_is_named_with_its_line(
    ranks: list[Sample | None], behind: tuple[int, ...], factor: int, words: str
) -> None:
    diagnosis = of_case(ranks)
    assert (diagnosis.stall.behind, diagnosis.factor) == (behind, factor), diagnosis.stall.text
    assert words in diagnosis.stall.text
    assert {place.rank for place in diagnosis.stall.places} == {0, 1, 2}


def of_case(ranks: list[Sample | None]) -> Diagnosis:
    samples = {n: replace(sample, rank=n) for n, sample in enumerate(ranks) if sample}
    ended = [n for n, sample in enumerate(ranks) if sample is None]
    return diagnosed(RUN, samples, seconds=74, ended=ended, source=text_of)


def test_each_row_of_the_table_decides_a_case() -> None:
    """Two rows are about hosts that do not answer; the test of these is below."""
    decided = {of_case(ranks).why for ranks, *_ in CASES.values()}
    of_hosts = {row.why for row in ROWS if "host" in row.why}
    assert len(of_hosts) == 2 and decided == {row.why for row in ROWS} - of_hosts | {STOPPED}


def text_of(file: str, line: int) -> str:
    """The text of a line of the program."""
    return SOURCE.get((file, line), "")


def by_rank(*samples: Sample) -> Mapping[int, Sample]:
    """The samples of the first ranks."""
    return {number: replace(sample, rank=number) for number, sample in enumerate(samples)}


def test_a_host_that_does_not_answer_is_behind() -> None:
    samples = by_rank(sample(ALLREDUCE), sample(ALLREDUCE))
    diagnosis = diagnosed(
        RUN, samples, seconds=74, unreachable={"h2": "no answer within 30 seconds"}
    )
    assert (diagnosis.stall.behind, diagnosis.factor) == ((2,), LIKELY)
    assert "does not answer (no answer within 30 seconds)" in diagnosis.stall.text
    hosts = {"h1": "no route", "h2": "no route"}
    alone = diagnosed(RUN, {}, seconds=74, unreachable=hosts)
    assert alone.stall.behind == () and diagnosis.why != alone.why


def test_a_rank_that_has_not_ended_and_is_not_found_is_not_surely_behind() -> None:
    """A script may give its processes another name."""
    samples = {n: replace(sample(ALLREDUCE), rank=n) for n in (0, 2)}
    diagnosis = diagnosed(RUN, samples, seconds=74)
    assert (diagnosis.stall.behind, diagnosis.factor) == ((1,), LIKELY)
    assert "without an answer (its process was not found)" in diagnosis.stall.text
    assert diagnosed(RUN, {}, seconds=74).factor == POSSIBLE


def test_servers_are_not_behind_unless_they_are_stopped() -> None:
    run = replace(RUN, roles=(Role("chief", 0), Role("ps", 0), Role("worker", 0)))
    chief = sample(stack(at(20, f"{SITE}tensorflow/python/distribute/coordinator/"
                                "cluster_coordinator.py:547 wait")))  # fmt: skip
    diagnosis = diagnosed(run, by_rank(chief, sample(SERVES), sample(SERVES)), seconds=74)
    assert diagnosis.stall.behind == () and diagnosis.factor == LIKELY
    lost = diagnosed(run, by_rank(chief, sample("", state="T"), sample(SERVES)), seconds=74)
    assert (lost.stall.behind, lost.factor) == ((1,), SURE)


def test_the_collective_is_that_of_horovods_last_warning() -> None:
    """The ranks have got past the one before."""
    warnings = ["Missing ranks:", "2: [HorovodBroadcast_weights_1]", "Missing ranks:"]
    warnings += ["1: [HorovodAllreduce_grads_7, HorovodAllreduce_grads_8]"]
    samples = by_rank(sample(FIT), sample(OPEN), sample(FIT))
    diagnosis = diagnosed(RUN, samples, seconds=74, warnings=warnings)
    assert "ranks 0, 2 wait for it in allreduce" in diagnosis.stall.text


@bounded(200)
@given(st.text('File "train.py", line 12 in\nCurrent thread 0x00: (most recent call first):\n\0é'))
def test_whatever_a_rank_writes_is_read(text: str) -> None:
    parsed(text)
    diagnosis = diagnosed(RUN, by_rank(*[sample(text)] * 3), seconds=74)
    assert diagnosis.stall.text


def test_the_main_thread_is_the_last_one_and_long_stacks_are_cut() -> None:
    stacks = parsed(stack(at(12), *[at(30)] * 300))
    assert stacks[0][0].line == 12 and len(stacks) == 200
    assert len(parsed(stack(["/a.py:1 f"] * 1000))[0]) == 200
