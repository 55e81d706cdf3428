"""Advice about a failed run: from the table of causes, or about a script's wrong Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.documents.runs.cause import Cause
from railhead.documents.runs.result import Culprit, Result, other_keras

from ...console.text import clean
from ...errors import Command
from ...facts import xid
from ...host.causes.causes import COMMANDS, NO_INODES, Failure, advice_of, diagnosed
from ...host.causes.keras_errors import needs_other
from ..run import Run

NOBODY = Culprit(None, None, ())


def cause_of(result: Result) -> Cause | None:
    """The cause of a failure that the chief recorded; for an older run, found in the culprit's
    lines. Control characters are removed from the evidence."""
    if result.state != "failed":
        return None
    cause = result.cause or diagnosed(Failure(result.culprit or NOBODY)).cause
    return replace(cause, evidence=clean(cause.evidence))


def next_step(run: Run, result: Result, keras: int | None = None) -> str | Command:
    """What to do about a failed run: advice, or the command that shows more.

    Args:
        keras: the Keras of the run; None if it is not known, or if both were tried.
    """
    culprit = result.culprit or NOBODY
    lines = [clean(str(line)) for line in culprit.lines]
    cause = cause_of(result) or diagnosed(Failure(culprit)).cause
    return _keras(lines, keras) or _xid(cause) or advice_of(cause, lines) or _command(run, cause)


def _keras(lines: Sequence[str], keras: int | None) -> str:
    if keras is None or not needs_other(keras, lines):
        return ""
    other = other_keras(keras)
    return f"the script is written for Keras {other}: add --keras {other}"


def _xid(cause: Cause) -> str:
    """The remedy for an Xid in the evidence."""
    xids = xid.read_log(cause.evidence) if cause.class_ == "gpu" else ()
    return "".join(f"{x.meaning.problem}: {x.meaning.todo.format(bus=x.bus)}" for x in xids[:1])


def _command(run: Run, cause: Cause) -> Command:
    """The command that shows more about a cause."""
    match COMMANDS.get(cause.class_):
        case "exec":
            what = "-i" if cause.evidence.startswith(NO_INODES) else "-h"
            return Command("exec", cmd=f"df {what} ~ /tmp /dev/shm")
        case "health" if cause.host:
            return Command("health")
        case "status" if cause.host:
            return Command("status")
        case "up":
            return Command("up", refresh=True)
    rank = "mpirun" if cause.rank is None else cause.rank
    return Command("logs", run=run.run_id, rank=rank)
