"""`fab evaluate`: checks a script's metrics, or evaluates the model, locally or on hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import EndingOptions, EvaluateOptions, ProgramOptions
from railhead.documents.outputs import EvaluationOutput, RunOutput
from railhead.documents.runs.evaluation import Evaluation

from ..console.output import note_output, noted_output, print_result
from ..evaluation import here
from ..evaluation.recorded import is_recorded, judge_recorded
from ..evaluation.request import FOLDER, read_evaluation
from ..inventory.hosts import Inventory
from ..lifecycle.stop_policy import stop_policy_of
from ..report.facts import object_in, read_run
from ..report.gate import gate_lines
from ..runs.earlier_run import earlier_run
from . import train as training
from .plan import ready_options

FILE = "evaluation.json"


def evaluate(
    evaluated: EvaluateOptions,
    program: ProgramOptions,
    ready: ReadyOptions,
    ending: EndingOptions,
    hosts: Callable[[], Inventory],
) -> dict[str, Any]:
    """Evaluate the model of a run; returns its evaluation.json, or the judgement if nothing had to
    run.

    Raises:
        BelowThreshold: the evaluation missed a threshold.
    """
    assert evaluated.run
    policy, earlier = stop_policy_of(ending), earlier_run(evaluated.run)
    with _table_at_end(earlier.run.run_id):
        if is_recorded(earlier, program, evaluated.model):
            return dict(judge_recorded(earlier, program).values)
        request = read_evaluation(earlier, program, evaluated.model)
        if evaluated.here:
            return object_in(here.evaluate(earlier, request) / FILE)
        any_gpus = replace(ready, allow_mixed=True)
        options = ready_options(any_gpus, program, launcher=request.options.launcher)
        folder = earlier.run.results / FOLDER
        chosen = training.TrainOptions(request, options, folder, stop_policy=policy)
        try:
            run = training.train(hosts(), chosen)
        finally:
            _note_evaluation(earlier.run.run_id)
        return object_in(run.results / FILE)


@contextlib.contextmanager
def _table_at_end(run_id: str) -> Iterator[None]:
    """After the block, also if a threshold was missed, print the figures that it noted, and the
    cost and the carbon of the training."""
    before = noted_output()
    try:
        yield
    finally:
        noted = noted_output()
        if noted is not before and isinstance(noted, EvaluationOutput) and noted.evaluation:
            print_result(*gate_lines(read_run(run_id), decode(Evaluation, noted.evaluation)))


def _note_evaluation(run_id: str) -> None:
    """After a run that evaluated this one: the output is its evaluation, not the run; without one,
    the state of the run that evaluated."""
    evaluating = noted_output()
    if isinstance(evaluating, RunOutput):
        values = object_in(Path(evaluating.results) / FILE)
        state = None if values else evaluating.state
        note_output(EvaluationOutput(run_id=run_id, evaluation=values, state=state))
