"""The table of causes of failures: evidence -> class -> whether the run starts again -> what to do.

The kinds of evidence are searched in the order of `SOURCES`. Of a rank's last lines, the last one
that matches a row decides.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.runs.cause import LONGEST, Cause
from railhead.documents.runs.result import Culprit

from .retry import ALWAYS, NEVER, REPEATED

# Kinds of evidence: the line about a run without progress; the notice of a cloud that takes the
# machine back; lines of the kernel's log; lines of the rank or of mpirun; full disks; a sentence
# about the end of the rank or the host.
STALL, CLOUD, KERNEL, LINES = "stall", "cloud", "kernel", "lines"
SPACE, END = "space", "end"
SOURCES = (STALL, CLOUD, KERNEL, LINES, SPACE, END)
NO_INODES = "no inodes for files are left"  # the start of a line of SPACE; the place follows
ENDED_BY_OTHERS = (1, 2, 9, 15)  # signals that others send: the program's lines do not explain them
Advice = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True)
class Row:
    """Evidence and its meaning. `signal`: only for a rank that this signal killed. `advice`: what
    to do; empty: the command of the class (`COMMANDS`). `pattern` is compiled on use: most programs
    that import this table see no failure."""

    class_: str
    source: str
    pattern: str
    retry: str = REPEATED
    advice: Advice = ""
    signal: int | None = None


@dataclass(frozen=True)
class Failure:
    """A failure with its evidence. `cloud`, `kernel` and `space`: lines about the culprit's host,
    from evidence.py."""

    culprit: Culprit
    kernel: Sequence[str] = ()
    space: Sequence[str] = ()
    cloud: Sequence[str] = ()


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a failure, and whether the run starts again."""

    cause: Cause
    retry: str


def _sagemaker(match: re.Match[str]) -> str:
    """The replacement for a path of SageMaker."""
    folder, channel = match.groups()
    names = {"model": "SM_MODEL_DIR", "output": "SM_OUTPUT_DIR", "input": "SM_INPUT_DIR"}
    name = f"SM_CHANNEL_{channel.upper()}" if channel and folder == "input" else names.get(folder)
    return (
        f"{match[0]} is a folder of SageMaker: in the script, write"
        f" os.environ[{name or 'SM_...'!r}], and add --sagemaker (docs/data.md)"
    )


def _not_sent(match: re.Match[str]) -> str:
    return (
        f"{match[1]} is not on the hosts: sent is the folder of the script, or --workdir, without"
        " what .gitignore excludes; other files: --data NAME=FOLDER"
    )


def _missing(match: re.Match[str]) -> str:
    package = PACKAGES.get(match[1], match[1])
    return (
        f"{match[1]} is not on the hosts: name the package {package} in a file for --requirements;"
        " modules of your own lie in --workdir"
    )


def _other_run(match: re.Match[str]) -> str:
    return f"fab attach --run {match[1]}   # or: fab cancel --run {match[1]}"


def _row(
    class_: str,
    *patterns: str,
    source: str = LINES,
    retry: str = REPEATED,
    advice: Advice = "",
    signal: int | None = None,
) -> Row:
    return Row(class_, source, "|".join(patterns), retry, advice, signal)


# Packages that contain a module of another name.
PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
PROGRAM_XID = r"NVRM: Xid \([^)]*\): (?:13|31|43)"  # errors that a program causes
FEWER = "a smaller batch, or fewer ranks on that host"
ROWS = (
    _row("stall", r".", source=STALL),
    _row("preempted", r".", source=CLOUD, retry=ALWAYS),
    _row(
        "memory",
        r"[Oo]ut of memory: Kill",
        r"oom-kill:",
        r"oom_kill of its cgroup",
        source=KERNEL,
        advice=FEWER,
        signal=9,
    ),
    _row(
        "program",
        PROGRAM_XID + r"\b",
        source=KERNEL,
        advice="run the program under compute-sanitizer: the GPU is fine",
    ),
    _row("gpu", r"NVRM: Xid \([^)]*\): (?!(?:45|63)\b)\d+", source=KERNEL, retry=ALWAYS),
    _row(
        "data", r"/opt/ml(?!\w)(?:/([\w.-]+))?(?:/data/([\w.-]+))?", retry=NEVER, advice=_sagemaker
    ),
    _row(
        "data",
        r"FileNotFoundError: .*No such file or directory: '([^/'][^']{0,200})'",
        retry=NEVER,
        advice=_not_sent,
    ),
    _row(
        "data",
        r"(?:FileNotFound|NotADirectory|IsADirectory|UnicodeDecode)Error:",
        r"is not an image that can be read",
        r"must be finite numbers",
        r"is truncated or damaged after record",
        r"is not a TFRecord file",
        retry=NEVER,
    ),
    _row("data", r"DataLossError"),
    _row(
        "usage",
        r"error: (?:unrecognized arguments|the following arguments are required|argument \S+: )",
        r"of this script never joined each other",
        r"each rank needs its own GPU",
        r"(?:mpi|prte)run was unable to launch the specified application",
        retry=NEVER,
    ),
    _row(
        "usage",
        r"^run (\S+) is running on this chief",  # of the supervisor
        retry=NEVER,
        advice=_other_run,
    ),
    _row(
        "usage",
        r"pthread_create(?:\(\))? failed",
        r"can't start new thread",
        advice="the account may start no more threads there: fewer ranks on that host, or raise"
        " `ulimit -u` and TasksMax",
    ),
    _row(
        "usage",
        r"Duplicate GPU detected",
        r"ncclInvalidUsage",
        r"(?i:nccl).* invalid usage",
        retry=NEVER,
        advice="two ranks use one GPU: each takes its own, with its local rank",
    ),
    _row(
        "gpu",
        r"CUDA_ERROR_(?:SYSTEM_DRIVER_MISMATCH|NO_BINARY_FOR_GPU|COMPAT_NOT_SUPPORTED_ON_DEVICE)",
        r"CUDA driver version is insufficient",
        r"unsupported display driver / cuda driver combination",
        r"no kernel image is available for execution on the device",
        r"forward compatibility was attempted on non supported HW",
        retry=NEVER,
        advice="the packages of the program do not fit this driver or card",
    ),
    _row(
        "program",
        r"module 'tensorflow' has no attribute 'estimator'",
        r"tf\.keras\.estimator\.\w+ function not available",
        retry=NEVER,
        advice="TensorFlow 2.16 removed tf.estimator: write the model with Keras",
    ),
    _row(
        "program",
        r"ModuleNotFoundError: No module named '((?!keras\b)\w+)",
        retry=NEVER,
        advice=_missing,
    ),
    _row("program", r"(?:ModuleNotFound|Import|Syntax|Indentation)Error:", retry=NEVER),
    _row(
        "program",
        r"(?i:\b(?:loss|gradient) of .{1,80} is not a number)",
        r"after step \d+ is not a number",
        r"(?i:\bloss(?: is| =|=|:) ?nan\b)",
        r"Tensor had (?:NaN|Inf) values",
        retry=NEVER,
        advice="a lower learning rate, or look for such values in the data",
    ),
    _row(
        "disk",
        r"No space left on device",
        r"Disk quota exceeded",
        r"no space for checkpoints",
        retry=NEVER,
    ),
    _row("disk", r"Input/output error", r"Read-only file system"),
    _row(
        "memory",
        r"\bMemoryError\b",
        r"Cannot allocate memory",
        r"std::bad_alloc",
        r"ResourceExhaustedError",
        r"RESOURCE_EXHAUSTED",
        r"OOM when allocating",
        r"CUDA(?:_ERROR_OUT_OF_MEMORY| out of memory| error: out of memory)",
        r"cudaErrorMemoryAllocation:",
        r"CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED",
        # JAX, if another process has taken the GPU's memory.
        r"no supported devices found for platform CUDA",
        advice=FEWER,
    ),
    _row(
        "gpu",
        r"CUDA_ERROR_(?:ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|HARDWARE_STACK_ERROR)",
        r"CUDA_ERROR_(?:SYSTEM_NOT_READY|DEVICE_UNAVAILABLE)",
        r"uncorrectable (?:ECC|NVLink) error",
        r"(?:CUDA|cuda\w*).*: (?:hardware stack error|system not yet initialized)",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        r"GPU is lost",
        r"fallen off the bus",
        retry=ALWAYS,
    ),
    _row(
        "program",
        r"/tensorflow\.CoordinationService/ShutdownTask",
        r"Shutdown barrier (?:in coordination service )?has failed",
        retry=NEVER,
        advice="its ranks ended minutes apart: end them together, after the last evaluation",
    ),
    _row(
        "program",
        r"ended before the others",
        r"Horovod has been shut down",
        advice="a rank ended before the others: each one needs as many steps, or hvd.join()",
    ),
    _row(
        "network",
        r"HorovodInternalError",
        r"nccl(?:Remote|System)Error",
        r"NCCL error",
        r"mca_btl_tcp",
        r"failed to connect to all addresses",
        r"UnavailableError",
        # A peer that was paused for longer than its heartbeats (8 s), by role: 2.18, 2.21.
        r"errors_impl\.(?:Aborted|DeadlineExceeded)Error",
        r"heartbeat timeout",
        r"stopped sending heartbeats",
        r"/tensorflow\.CoordinationService/",  # another rank does not answer, or is stopped
        r"ORTE was unable to reliably start one or more daemons",
        r"A daemon failed to report back after being spawned",
        retry=ALWAYS,
    ),
    _row(
        "network",
        r"Connection (?:reset|refused|timed out|closed|aborted)",
        r"(?:ConnectionReset|ConnectionRefused|BrokenPipe)Error",
        r"No route to host",
        r"Network is unreachable",
        r"Temporary failure in name resolution",
        r"Stale file handle",
        r"Transport endpoint is not connected",
        r"\b[Rr]ead timed out",
        r"[Aa]ddress already in use",
    ),
    # TensorFlow indents an exception of a tf.function below a line that has only its location.
    _row("program", r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception): (?!in user code:)"),
    _row("disk", r".", source=SPACE, retry=NEVER),
    _row(
        "host",
        r"^lost$",
        r"no heartbeat of (?:its ranks|rank \d+)",
        r"it answers again",
        r"no sign of life",
        r"^killed by signal (?:1|2|9|15)$",
        source=END,
        retry=ALWAYS,
    ),
    _row("usage", r"^exited with 2$", source=END, retry=NEVER),
    _row("program", r"", source=END),
)
MEANINGS: Mapping[str, str] = {  # class -> its evidence, for docs/troubleshooting.md
    "program": "an exception, a crash, another exit code; a loss that is not a number; an Xid that"
    " the program caused",
    "usage": "a wrong argument, exit code 2, a script whose ranks never joined each other; two"
    " ranks on one GPU",
    "data": "a missing or damaged file",
    "memory": "the kernel killed the rank for its memory; a failed allocation on the host or GPU",
    "disk": "no space, a quota, an I/O error",
    "network": "a broken or refused connection; a port in use; an error of Horovod, NCCL or"
    " Open MPI",
    "host": "a lost or silent host; a rank that somebody else killed (signals 1, 2, 9, 15)",
    "preempted": "the cloud takes a spot machine back",
    "gpu": "an Xid in the kernel's log; an error that ECC cannot correct; a driver or a card that"
    " the packages do not fit",
    "stall": "no progress",
}
# The `fab` task that shows more, by class.
COMMANDS: Mapping[str, str] = {
    "disk": "exec",
    "network": "health",
    "host": "status",
    "preempted": "up",
    "gpu": "health",
}


def diagnosed(failure: Failure) -> Diagnosis:
    """The cause of a failure."""
    row, line = next(_matches(failure))
    culprit = failure.culprit
    if row.class_ == "disk":  # the program's line says only that there is no space
        line = next((full for full in failure.space if full.startswith(NO_INODES)), line)
    cause = Cause(row.class_, line.strip()[:LONGEST], culprit.host, culprit.rank)
    return Diagnosis(cause, row.retry)


def _matches(failure: Failure) -> Iterator[tuple[Row, str]]:
    """The rows that match a line, in order, each with the line; the last row matches every end."""
    signal = failure.culprit.signal
    for source, lines in _evidence(failure).items():
        rows = [row for row in ROWS if row.source == source and row.signal in (None, signal)]
        yield from ((row, line) for line in lines for row in rows if re.search(row.pattern, line))


def _evidence(failure: Failure) -> dict[str, Sequence[str]]:
    """The lines of each source, the most telling first."""
    culprit = failure.culprit
    stall = culprit.stall
    is_lost = culprit.rank is None and culprit.host is not None
    says_why = not is_lost and culprit.signal not in ENDED_BY_OTHERS
    lines = [line[:LONGEST] for line in reversed(culprit.lines)] if says_why else []
    return {
        STALL: [stall.text] if stall else [],
        CLOUD: [] if says_why else failure.cloud,
        KERNEL: failure.kernel,
        LINES: lines,
        SPACE: failure.space,
        END: [end_of(culprit)],
    }


def end_of(culprit: Culprit) -> str:
    """How a rank or a host ended, as a sentence of the table."""
    if culprit.rank is None:
        known = ("no heartbeat", "answers again", "no sign of life")
        lost = [line for line in culprit.lines if any(words in line for words in known)]
        return (lost or ["lost" if culprit.host else "mpirun failed"])[0]
    if culprit.signal is not None:
        return f"killed by signal {culprit.signal}"
    return f"exited with {1 if culprit.exit is None else culprit.exit}"


def advice_of(cause: Cause, lines: Sequence[str]) -> str:
    """What to do about a cause: the advice of its row, or of a row of `data` that matches another
    of the last lines; "" if the command of the class says more."""
    of_class = [row for row in ROWS if row.class_ == cause.class_ and row.advice]
    of_lines = [row for row in ROWS if row.class_ == "data" and row.advice]
    texts = [line[:LONGEST] for line in reversed(lines)]
    for row, text in [(row, cause.evidence) for row in of_class] + [
        (row, text) for row in of_lines for text in texts
    ]:
        if match := re.search(row.pattern, text):
            return row.advice if isinstance(row.advice, str) else row.advice(match)
    return ""
