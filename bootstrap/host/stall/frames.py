"""What a thread does, from faulthandler's text: the innermost line of the program, and the library
call that it is in. Pure. A rank's text is untrusted: it may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from railhead.documents.lazy import dataclass, replace

FRAME = re.compile(r'^  File "(?P<file>.{1,1000})", line (?P<line>\d{1,9}) in (?P<name>.{1,300})$')
THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")
MOST_FRAMES, MOST_THREADS = 200, 200
# Patterns of library files; the first match in `_of_thread` decides.
COLLECTIVE = re.compile(
    r"/horovod/|/torch/distributed/|/mpi4py/|/railhead/keras_patches/horovod/"
    r"|/jax/experimental/multihost_utils|/tensorflow/python/distribute/(?:cross_device|collective"
    r"|multi_worker_util)|/coordinator/cluster_coordinator"
)
INPUT = re.compile(
    r"/data/ops/iterator_ops|/distribute/input_lib|/torch/utils/data/|/data/ops/.*iterator"
)
SERVES = re.compile(r"/training/server_lib")
TENSORFLOW = re.compile(r"/(?:tensorflow|keras|tf_keras|jax|jaxlib|torch)/")
# Collectives that run in C code: then the innermost line is the program's own.
CALL = re.compile(
    r"(?i)\b(barrier|b?cast|broadcast\w*|all_?reduce|all_?gather\w*|all_?to_?all|reduce_?scatter"
    r"|gather|join|recv)\s*\("
)
OF_MPI = re.compile(r"(?i)\b(?:comm\w*|mpi|hvd|dist|world)\.")
JOINS = (
    ("threading.py", "join"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("_base.py", "result"),
)
CALLED_BY_TENSORFLOW = re.compile(r"/(?:script_ops|from_generator_op|py_data_adapter)")
NOT_AN_OPERATION = re.compile(r"^_*(?:wrapper|wrapped|<.*>|f|fn|func|call|__call__)$")


class Frame(NamedTuple):
    """A line of a stack."""

    file: str
    line: int
    name: str


Stack = tuple[Frame, ...]  # the innermost frame first
Source = Callable[[str, int], str]  # the text of a line of the program, "" if it is not known


def parsed(text: str) -> list[Stack]:
    """The stacks of all threads, the main thread first; threads without frames are left out, except
    the main thread. Empty if there is no stack. faulthandler lists the newest thread first, so the
    main thread is the last one."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if THREAD.match(line):
            threads.append([])
        elif (frame := FRAME.match(line)) and threads and len(threads[-1]) < MOST_FRAMES:
            threads[-1].append(Frame(frame["file"], int(frame["line"]), frame["name"]))
    if not threads:
        return []
    *others, main = [tuple(frames) for frames in threads]
    return [main, *filter(None, reversed(others))][:MOST_THREADS]


@dataclass(frozen=True)
class Doing:
    """`kind`: one of `DOING` of documents/runs/stall.py; `frame`: the innermost one of the program;
    `detail`: the name of the operation, or of the library function."""

    kind: str
    frame: Frame | None
    detail: str = ""


def doing_of(stacks: list[Stack], work: str, source: Source) -> Doing:
    """What a rank does, from the stacks of its threads, the main thread first. `work`: a part of
    the paths of the program's files, such as /runs/ID/work/; `source`: the text of a line of a file
    below `work`."""
    main = _of_thread(stacks[0], work, source)
    if main.kind != "call" or main.detail == "join":
        # TensorFlow runs the program's generators and functions in its own threads.
        for stack in stacks[1:]:
            other = _of_thread(stack, work, source)
            called = any(CALLED_BY_TENSORFLOW.search(frame.file) for frame in stack)
            if other.frame and other.kind == "call" and called:
                return replace(other, kind="input")
            if other.frame and other.kind == "call" and main.detail == "join":
                return other
    return main


def _of_thread(stack: Stack, work: str, source: Source) -> Doing:
    inner: list[Frame] = []
    program_frame = None
    for frame in stack:
        if work in frame.file:
            program_frame = frame
            break
        inner.append(frame)
    if not program_frame:
        inner = [frame for frame in stack if "railhead.pyz" not in frame.file]
    files = [frame.file for frame in inner]
    if any(map(COLLECTIVE.search, files)):
        return Doing("collective", program_frame, _operation(inner))
    if any(map(SERVES.search, files)):
        return Doing("serves", program_frame, "join")
    if any(map(INPUT.search, files)):
        return Doing("input", program_frame)
    if any(map(TENSORFLOW.search, files)):
        return Doing("tensorflow", program_frame)
    if program_frame and not inner:
        text = source(program_frame.file.partition(work)[2], program_frame.line)
        call = CALL.search(text)
        if call and OF_MPI.search(text):
            return Doing("collective", program_frame, call[1])
    joins = any((f.file.rpartition("/")[2], f.name) in JOINS for f in inner[:3])
    return Doing("call", program_frame, "join" if joins else "")


def _operation(inner: list[Frame]) -> str:
    """The name of a collective: the library function that the program called."""
    names = [f.name for f in inner if COLLECTIVE.search(f.file)]
    plain = [name.strip("_") for name in names if not NOT_AN_OPERATION.match(name)]
    return (plain or ["a collective"])[-1]
