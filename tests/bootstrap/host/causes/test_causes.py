"""Causes of failures: what the last lines, the kernel of the host and the end of a rank show."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from places import CASES
from standins import programs
from standins.runs.supervised_run import Run, says

from bootstrap.host.attempts import cgroups, evidence, preempted
from bootstrap.host.causes import causes
from bootstrap.host.causes.causes import NO_INODES, Failure, diagnosed
from bootstrap.host.causes.retry import ALWAYS, NEVER, REPEATED
from bootstrap.host.run import time_left
from bootstrap.host.stall.watch import ask_host
from railhead.documents.codec import decode, encode
from railhead.documents.runs.cause import KINDS
from railhead.documents.runs.result import Culprit
from railhead.documents.runs.run import RunDocument

LINES = {
    "ValueError: no data": ("program", REPEATED),
    "mypackage.errors.BrokenThingError: no": ("program", REPEATED),
    "ModuleNotFoundError: No module named 'pandas'": ("program", NEVER),
    "ImportError: cannot import name 'x' from 'y'": ("program", NEVER),
    "SyntaxError: invalid syntax": ("program", NEVER),
    "the loss of step 7 is not a number on rank 1: lower learning_rate": ("program", NEVER),
    "9/9 - 1s 5ms/step - loss: nan - val_loss: nan": ("program", NEVER),
    "HorovodInternalError: Horovod has been shut down. This was": ("program", REPEATED),
    "train.py: error: unrecognized arguments: --epochz": ("usage", NEVER),
    "RuntimeError: can't start new thread": ("usage", REPEATED),
    "Thread tf_numa creation via pthread_create() failed.": ("usage", REPEATED),
    "run 20261128-170903-3f86 is running on this chief: one run at a time": ("usage", NEVER),
    "OpenBLAS blas_thread_init: pthread_create failed for thread 5 of 8:": ("usage", REPEATED),
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'": ("data", NEVER),
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'": ("data", NEVER),
    "DataLossError: corrupted record at 12": ("data", REPEATED),
    "OSError: [Errno 28] No space left on device": ("disk", NEVER),
    "OSError: [Errno 5] Input/output error": ("disk", REPEATED),
    "MemoryError: Unable to allocate 8 GiB": ("memory", REPEATED),
    "ResourceExhaustedError: OOM when allocating tensor": ("memory", REPEATED),
    "horovod.common.exceptions.HorovodInternalError: Connection reset": ("network", ALWAYS),
    "RPC: /tensorflow.CoordinationService/Heartbeat": ("network", ALWAYS),
    "RPC: /tensorflow.CoordinationService/ShutdownTask": ("program", NEVER),
    "tensorflow.python.framework.errors_impl.DeadlineExceededError: x": ("network", ALWAYS),
    "tensorflow.python.framework.errors_impl.AbortedError: x": ("network", ALWAYS),
    "aborted by: Task /job:worker/replica:0/task:1 heartbeat timeout.": ("network", ALWAYS),
    "tasks are unhealthy (stopped sending heartbeats):": ("network", ALWAYS),
    "Shutdown barrier in coordination service has failed: x": ("program", NEVER),
    "ConnectionRefusedError: [Errno 111] Connection refused": ("network", REPEATED),
    "OSError: [Errno 98] Address already in use": ("network", REPEATED),
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
    "a chief whose lease ended": (
        Culprit(None, "b", ("no sign of life of it in the bucket for 130 s",)),
        "host",
        ALWAYS,
        "no sign of life of it in the bucket for 130 s",
    ),
    "mpirun itself": (Culprit(None, None, ("?",)), "program", REPEATED, "mpirun failed"),
}


@pytest.mark.parametrize("culprit, class_, retry, shown", ENDS.values(), ids=ENDS)
def test_otherwise_how_it_ended_decides(
    culprit: Culprit, class_: str, retry: str, shown: str
) -> None:
    result = diagnosed(Failure(culprit))
    assert (result.cause.class_, result.retry, result.cause.evidence) == (class_, retry, shown)


# The last lines of programs on an H200 (driver 580.159.04, torch 2.11, JAX 0.11.2, NCCL 2.28.9).
OF_GPU = {
    "one-gpu-torch": ("usage", NEVER),  # NCCL refuses two ranks on one GPU
    "one-gpu-jax": ("usage", NEVER),
    "memory-jax": ("memory", REPEATED),
    "full-torch": ("memory", REPEATED),  # another process has taken all of it
    "full-jax": ("memory", REPEATED),
}


@pytest.mark.parametrize("name, expected", OF_GPU.items())
def test_messages_about_a_gpu_have_a_cause(name: str, expected: tuple[str, str]) -> None:
    lines = tuple((CASES / f"gpu/{name}.txt").read_text().splitlines())
    result = diagnosed(Failure(Culprit(0, "b", lines, exit=1)))
    assert (result.cause.class_, result.retry) == expected


# By number of an error of CUDA, with its text in libcudart 13: all others are of the program.
OF_CUDA = {
    2: ("memory", REPEATED),
    35: ("gpu", NEVER),
    46: ("gpu", ALWAYS),
    209: ("gpu", NEVER),
    214: ("gpu", ALWAYS),
    220: ("gpu", ALWAYS),
    714: ("gpu", ALWAYS),
    802: ("gpu", ALWAYS),
    803: ("gpu", NEVER),
    804: ("gpu", NEVER),
}
ERRORS = json.loads((CASES / "gpu/cuda-errors.json").read_text())


@pytest.mark.parametrize("number", ERRORS)
def test_each_error_of_cuda_has_one_cause_in_the_words_of_each_library(number: str) -> None:
    runtime, text, *driver = ERRORS[number]
    lines = [f"torch.AcceleratorError: CUDA error: {text}", f"CUDARuntimeError: {runtime}: {text}"]
    lines += [f"tensorflow InternalError: {name}: {text}" for name in driver]
    diagnoses = [diagnosed(Failure(Culprit(0, "b", (line,), exit=1))) for line in lines]
    expected = OF_CUDA.get(int(number), ("program", REPEATED))
    assert {(diagnosis.cause.class_, diagnosis.retry) for diagnosis in diagnoses} == {expected}


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


def test_of_many_records_of_the_kernel_the_last_ones_are_taken() -> None:
    killed = "Out of memory: Killed process"
    log = "".join(f"[ {1000 + n}.000000] {killed} {n} (python3)\n" for n in range(60))
    records = evidence.kernel_lines(log, since=1000)
    assert [int(line.split()[-2]) for line in records] == [*range(60)][-len(records) :]
    assert 1 < len(records) < 60


def test_a_disk_without_inodes_is_named_as_such() -> None:
    culprit = Culprit(1, "b", ("OSError: [Errno 28] No space left on device",), exit=1)
    space = ["no space is left in /dev/shm", f"{NO_INODES} in /"]
    assert diagnosed(Failure(culprit, space=space)).cause.evidence == space[1]
    assert diagnosed(Failure(culprit, space=space[:1])).cause.evidence == culprit.lines[0]
    other = diagnosed(Failure(Culprit(1, "b", ("KeyError: 1",), exit=1), space=space)).cause
    assert (other.class_, other.evidence) == ("program", "KeyError: 1")


def test_a_cgroup_that_ran_out_of_memory_is_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = tmp_path / "memory.events"
    counts.write_text("low 0\noom_kill 2\n")
    monkeypatch.setattr(cgroups, "cgroup_files", lambda: iter([str(counts), "/nowhere"]))
    cgroups.note_start(str(tmp_path), 1)
    assert [*evidence.of_rank(str(tmp_path), "1", [])] == []
    counts.write_text("low 0\noom_kill 3\n")
    (line,) = evidence.of_rank(str(tmp_path), "1", [])
    killed = diagnosed(Failure(Culprit(1, "b", (), signal=9), [line]))
    assert killed.cause.class_ == "memory" and "from 2 to 3" in killed.cause.evidence


KILLS = (
    "Out of memory: Killed process {} ({}) total-vm:1kB",
    "oom-kill:a=b,task={1},pid={0},uid=0",
)


def started_rank(folder: Path, rank: int, *, is_inside: bool = False, counts: str = "") -> None:
    """What rank RANK, process 70 + RANK, has noted at its start, when one process was killed."""
    kills = {counts: 1} if counts else {}
    started = cgroups.Started(70 + rank, "python3", is_inside, kills)
    (folder / f"rank-{rank}.json").write_text(json.dumps(encode(started)))


@pytest.mark.parametrize("text", KILLS)
def test_a_kill_of_another_process_is_not_evidence(tmp_path: Path, text: str) -> None:
    """Of a neighbour, and of another rank; two are killed beside the one in question."""
    lines = [text.format(*who) for who in ((9, "java"), (70, "python3"), (71, "python3"))]
    for rank in (0, 1):
        started_rank(tmp_path, rank)
    assert [*evidence.of_rank(str(tmp_path), "1", lines)] == [lines[2]]
    assert [*evidence.of_rank(str(tmp_path), "1", lines[:2])] == []
    started_rank(tmp_path, 1, is_inside=True)
    assert [*evidence.of_rank(str(tmp_path), "1", lines)] == lines[1:], "names are all it knows"
    assert [*evidence.of_rank(str(tmp_path), "2", lines)] == lines, "it could not write its start"


@pytest.mark.parametrize("number", [13, 31, 43])
def test_an_error_of_another_program_on_a_gpu_is_not_evidence(tmp_path: Path, number: int) -> None:
    """Rank 1 is process 71. An error of the card itself counts, whoever saw it."""
    text = "NVRM: Xid (PCI:0000:00:06): {}, pid={}, name=python3, channel 0x0000000a"
    of_rank, other = text.format(number, 71), text.format(number, 9)
    card, unknown = text.format(79, 9), text.format(number, "'<unknown>'")
    started_rank(tmp_path, 1)
    lines = [other, of_rank, card, unknown]
    assert [*evidence.of_rank(str(tmp_path), "1", lines)] == [of_rank, card, unknown]
    started_rank(tmp_path, 1, is_inside=True)
    assert [*evidence.of_rank(str(tmp_path), "1", lines)] == lines, "it has another number there"


def test_kills_of_others_in_the_cgroup_of_a_rank_are_not_evidence(tmp_path: Path) -> None:
    counts = tmp_path / "memory.events"
    started_rank(tmp_path, 1, counts=str(counts))
    other = [text.format(9, "java") for text in KILLS]
    counts.write_text("oom_kill 2\n")
    assert [*evidence.of_rank(str(tmp_path), "1", other)] == []
    counts.write_text("oom_kill 3\n")
    assert len([*evidence.of_rank(str(tmp_path), "1", other)]) == 1


def test_a_kill_before_the_attempt_is_not_evidence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same pid: a rank of the attempt before had it, 30 s ago; this one began 20 s ago."""
    log = tmp_path / "log"
    monkeypatch.setattr(evidence, "LOGS", (("cat", str(log)),))
    started_rank(tmp_path, 1)
    for age, count in ((30, 0), (10, 1)):
        text = KILLS[0].format(71, "python3")
        log.write_text(f"[{evidence.uptime() - age:12.6f}] {text}\n")
        assert len(evidence.look(str(tmp_path), 20.0, "1").kernel) == count


ACTION = '{"action": "terminate", "time": "2026-11-26T12:00:00Z"}'
GOOGLE, AMAZON = (preempted.GOOGLE[0], preempted.AMAZON)
# What a metadata service answers to each path; whether the machine is being taken back.
SERVICES = {
    "a preempted machine of Google Cloud": ({GOOGLE: "TRUE"}, True),
    "another one": ({GOOGLE: "FALSE"}, False),
    "a spot instance with a notice": ({preempted.TOKEN[0]: "key", AMAZON: ACTION}, True),
    "one that will hibernate": (
        {preempted.TOKEN[0]: "key", AMAZON: ACTION.replace("terminate", "hibernate")},
        True,
    ),
    "another instance": ({preempted.TOKEN[0]: "key"}, False),
    "something else": ({preempted.TOKEN[0]: "key", AMAZON: "[" * 5000}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize(("answers", "taken"), SERVICES.values(), ids=SERVICES)
def test_a_machine_that_its_cloud_takes_back_says_so(
    tmp_path: Path, answers: dict[str, str], taken: bool
) -> None:
    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {GOOGLE: ("Metadata-Flavor", "Google"),
                     AMAZON: ("X-aws-ec2-metadata-token", "key")}  # fmt: skip
            name, value = known.get(self.path, ("Host", self.headers["Host"]))
            body = answers.get(self.path) if self.headers[name] == value else None
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            pass

    tool = tmp_path / "tool"
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = ("127.0.0.1", server.server_port)
        assert [*preempted.notices(str(tool), address)] == [], "it is not a machine of a cloud"
        tool.touch()
        lines = [*preempted.notices(str(tool), address)]
        server.shutdown()
    assert bool(lines) is taken
    assert [*preempted.notices(str(tool), address)] == [], "nobody answers"


def test_a_machine_that_is_taken_back_is_the_cause_where_nothing_else_ended_the_rank() -> None:
    taken = ["EC2 interrupts this spot instance"]
    for culprit in (Culprit(1, "b", ("KeyError: 1",), signal=15), Culprit(None, "b", ())):
        result = diagnosed(Failure(culprit, cloud=taken))
        assert (result.cause.class_, result.retry) == ("preempted", ALWAYS)
    bug = Culprit(1, "b", ("KeyError: 1",), exit=1)
    assert diagnosed(Failure(bug, cloud=taken)).cause.class_ == "program"


@pytest.mark.parametrize("of_cloud", [True, False])
def test_a_lost_machine_of_a_cloud_shows_that_it_is_taken_back(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_cloud: bool
) -> None:
    """Records of its kernel do not say why it was lost."""
    tool = tmp_path / "tool"
    monkeypatch.setattr(time_left, "TOOL", str(tool))
    if of_cloud:
        tool.touch()
    run = Run(home, "")
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    reply = json.dumps({"kernel": ["Xid"], "space": [], "cloud": ["it is taken back"]})
    (home / "bin/ssh").write_text(f"#!/bin/sh\necho '{reply}'\n")
    failure = Failure(Culprit(None, "b", ()))
    document = decode(RunDocument, run.read("run.json"))
    shown = evidence.collect(document, str(run.folder), failure, 5.0)
    assert (shown.kernel, shown.cloud) == ((), ("it is taken back",) * of_cloud)


def test_a_host_whose_reply_is_not_a_document_shows_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(home, "")
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    document = decode(RunDocument, run.read("run.json"))
    failure = Failure(Culprit(1, "b", ()))
    for reply in ("", "[" * 100_000, '{"kernel": 1}'):
        (home / "bin/ssh").write_text(f"#!/bin/sh\ncat <<E\n{reply}\nE\n")
        assert evidence.collect(document, str(run.folder), failure, 5.0) == failure
        assert isinstance(ask_host(document, str(run.folder), 1, 0.1), str)


def test_the_result_of_a_real_run_has_its_cause(home: Path) -> None:
    """On the chief evidence is read by the real program; its kernel knows nothing of this run."""
    ended = says(0, '@railhead {"kind": "ended", "exit": 1}')
    run = Run(home, f"{says(0, 'KeyError: 7')}; {ended}; exit 1")
    result = run.result()
    assert result["cause"]["class"] == "program" and result["cause"]["evidence"] == "KeyError: 7"
    assert run.read("state.json")["cause"] == result["cause"]
    assert json.loads(
        subprocess.run(
            programs.command(run.folder, "attempts.evidence", "r1", "5", "0"),
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
            check=True,
            capture_output=True,
        ).stdout
    ) == {"kernel": [], "space": [], "cloud": []}


def test_every_class_has_a_row() -> None:
    assert {row.class_ for row in causes.ROWS} == {*KINDS}
