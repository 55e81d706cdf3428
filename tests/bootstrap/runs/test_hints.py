"""Errors of scripts whose cause is known: the hint names what to type or to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.host.causes.causes import NO_INODES
from bootstrap.runs.failures.hints import cause_of, next_step
from bootstrap.runs.run import Run
from bootstrap.runs.start import login_hint
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.result import Culprit, Result

FOR_2 = "the script is written for Keras 2: add --keras 2"
FOR_3 = "the script is written for Keras 3: add --keras 3"
RUN = Run("r1", Path("results/r1"))
LOG = "fab logs --run r1 --rank 0"


def failed(*lines: str, cause: Cause | None = None) -> Result:
    return Result(state="failed", culprit=Culprit(0, "h1", lines, exit=1), cause=cause)


def sagemaker(path: str, name: str) -> str:
    where = f"/opt/ml/{path}".rstrip("/")
    write = f"in the script, write os.environ['{name}'], and add --sagemaker (docs/data.md)"
    return f"{where} is a folder of SageMaker: {write}"


CASES = {
    "a checkpoint's name of Keras 2": (
        "ValueError: Invalid filepath extension for saving. Please add either a `.keras` extension",
        FOR_2,
    ),
    "an optimizer of Keras 2": (
        "ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using",
        FOR_2,
    ),
    "a variable of Keras 2": ("AttributeError: 'Variable' object has no attribute 'ref'", FOR_2),
    "a learning rate of Keras 3": (
        "AttributeError: 'function' object has no attribute 'assign'",
        FOR_3,
    ),
    "a module of Keras 3": ("ModuleNotFoundError: No module named 'keras.ops'", FOR_3),
    "data that git ignores": (
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
        "data/train.csv is not on the hosts: sent is the folder of the script, or --workdir,"
        " without what .gitignore excludes; other files: --data NAME=FOLDER",
    ),
    "a file outside the project": (
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'",
        "",
    ),
    "a channel of SageMaker": (
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/train'",
        "/opt/ml/input/data/train is a folder of SageMaker: in the script, write"
        " os.environ['SM_CHANNEL_TRAIN'], and add --sagemaker (docs/data.md)",
    ),
    "a folder of SageMaker": (
        "open('/opt/ml/model/data/x')",
        sagemaker("model/data/x", "SM_MODEL_DIR"),
    ),
    "its output": ("/opt/ml/output", sagemaker("output", "SM_OUTPUT_DIR")),
    "its input": ("/opt/ml/input", sagemaker("input", "SM_INPUT_DIR")),
    "another folder of it": ("/opt/ml/code", sagemaker("code", "SM_...")),
    "its whole folder": ("/opt/ml\nthe next line", sagemaker("", "SM_...")),
    "anything else": ("ValueError: no data", ""),
}


@pytest.mark.parametrize("line, hint", CASES.values(), ids=CASES)
def test_the_last_lines_of_a_script_lead_to_a_hint(line: str, hint: str) -> None:
    result = failed("Traceback (most recent call last):", *("\x1b[31m" + line).split("\n"))
    keras = 2 if hint == FOR_3 else 3
    assert str(next_step(RUN, result, keras)) == (hint or LOG)
    about_keras = hint in (FOR_2, FOR_3)
    without = str(next_step(RUN, result))
    assert without == (LOG if about_keras else hint or LOG), "both were tried, or it is not known"
    assert not about_keras or str(next_step(RUN, result, 5 - keras)) == LOG, "the other one already"


XID = "[12.5] NVRM: Xid (PCI:0000:00:04): 79, pid=7, GPU has fallen off the bus."
STEPS = {
    "an Xid": (Cause("gpu", XID, "h1", 0), "the GPU has fallen off the bus: stop the machine"),
    "memory": (Cause("memory", "[12.5] Out of memory: Killed process 7"), "a smaller batch"),
    "a disk": (Cause("disk", "no space is left in /"), "fab exec --cmd 'df -h ~"),
    "inodes": (Cause("disk", f"{NO_INODES} in /"), "fab exec --cmd 'df -i ~"),
    "a spot machine": (Cause("preempted", "EC2 takes it", "h1", 0), "fab up --refresh"),
    "a host": (Cause("host", "lost", "h1"), "fab status"),
    "a network": (Cause("network", "Connection reset by peer", "h1", 0), "fab health"),
    "a bug": (Cause("program", "KeyError: 1", "h1", 3), "fab logs --run r1 --rank 3"),
}


@pytest.mark.parametrize("cause, step", STEPS.values(), ids=STEPS)
def test_each_cause_leads_to_its_next_step(cause: Cause, step: str) -> None:
    assert str(next_step(RUN, failed("KeyError", cause=cause))).startswith(step)


@pytest.mark.parametrize("cause", ["an Xid", "memory"])
def test_the_remedy_of_a_cause_comes_before_what_the_lines_of_the_rank_suggest(cause: str) -> None:
    seen, step = STEPS[cause]
    result = failed("open('/opt/ml/model/x')", cause=seen)
    assert str(next_step(RUN, result)).startswith(step)


def test_a_result_of_an_earlier_version_gets_its_cause_from_its_lines() -> None:
    cause = cause_of(failed("OSError: [Errno 28] No space left on device\x1b[2J"))
    assert str(cause) == "disk: OSError: [Errno 28] No space left on device"
    assert cause_of(Result(state="succeeded")) is None


LOGINS = {
    "ssh: connect to host 10.0.0.2 port 22: Connection timed out": "let it reach their sshd",
    "root@10.0.0.2: Permission denied (publickey).": "fab bootstrap installs the ed25519 key",
    "Host key verification failed.": "fab trust",
}


@pytest.mark.parametrize("reason, hint", LOGINS.items(), ids=LOGINS)
def test_a_refused_login_is_not_a_matter_of_the_network(reason: str, hint: str) -> None:
    assert str(login_hint([reason])).startswith(hint)
