"""`fab evaluate RUN` without --script, for a script's run: judges the metrics it reported."""

from __future__ import annotations

from dataclasses import replace

from railhead.documents.codec import decode
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.outputs import EvaluationOutput
from railhead.documents.runs.evaluation import Judgement, Reported
from railhead.documents.runs.records import Record
from railhead.documents.runs.run import Script

from ..console.output import note_output, print_result
from ..console.text import record_line
from ..errors import BelowThreshold, Command, UsageError
from ..host.run.thresholds import judged
from ..runs.earlier_run import EarlierRun
from ..runs.metrics.options import read_thresholds
from ..untrusted.records import raw_records

ADDED = ("kind", "rank", "host", "time")  # by the chief, to a record


def is_recorded(earlier: EarlierRun, args: ProgramOptions, model: str | None) -> bool:
    """Whether nothing has to run: a script trained, no option is for a program, and no `model` is
    named, because the record does not name its model."""
    return (
        isinstance(earlier.document.program, Script)
        and model is None
        and not earlier.document.evaluates
        and replace(args, minimum={}, maximum={}) == ProgramOptions()
    )


def judge_recorded(earlier: EarlierRun, args: ProgramOptions) -> Reported:
    """The last record `evaluation` of a run with the last value of each --metric, judged.

    Raises:
        UsageError: the run has reported nothing, or its results are not here.
        BelowThreshold: a threshold was missed.
    """
    reported = _reported(earlier)
    judgement = judged(reported, read_thresholds(args.minimum, args.maximum))
    print_result(record_line(decode(Record, {**reported.values, "kind": "evaluation"})))
    values = reported.judged(judgement)
    note_output(EvaluationOutput(run_id=earlier.run.run_id, evaluation=values.values))
    require_passed(judgement)
    return values


def require_passed(judgement: Judgement) -> None:
    """BelowThreshold if a threshold was missed, or the program reports that it failed."""
    if judgement.passed is False:
        raise BelowThreshold("; ".join(judgement.failed) or "the evaluation did not pass")


def _reported(earlier: EarlierRun) -> Reported:
    run_id, file = earlier.run.run_id, earlier.run.results / "metrics.jsonl"
    if not file.is_file():
        raise UsageError(f"run {run_id} has no results here", hint=Command("fetch", run=run_id))
    evaluation, metrics = Reported(), {}
    for values in raw_records(file):
        record = decode(Record, values)
        if record.kind == "metric":
            metrics[record.name] = values.get("value")
        elif record.kind == "evaluation":
            evaluation = Reported({k: v for k, v in values.items() if k not in ADDED})
    if not metrics and not evaluation.values:
        raise UsageError(
            f"run {run_id} reported no evaluation: its script must print a record `evaluation`, "
            "or --script must name a script that evaluates its model",
            hint=Command("evaluate", run_id, script="eval.py"),
        )
    return evaluation.after(metrics)
