"""`fab evaluate`: judges what a script has reported, or evaluates the model here or on hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bootstrap.evaluation import here
from bootstrap.evaluation.recorded import is_recorded, judge_recorded
from bootstrap.evaluation.request import FOLDER, read_evaluation
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.stop_policy import stop_policy_of
from bootstrap.report.facts import object_in
from bootstrap.runs.earlier_run import earlier_run
from bootstrap.workflows import train as training
from bootstrap.workflows.plan import ready_options
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import EndingOptions, EvaluateOptions, ProgramOptions

FILE = "evaluation.json"


def evaluate(
    evaluated: EvaluateOptions,
    program: ProgramOptions,
    ready: ReadyOptions,
    ending: EndingOptions,
    hosts: Callable[[], Inventory],
) -> dict[str, Any]:
    """Evaluate the model of a run; returns its evaluation.json, or the judgement where nothing had
    to run.

    Raises:
        BelowThreshold: the evaluation missed a threshold.
    """
    policy, earlier = stop_policy_of(ending), earlier_run(evaluated.run)
    if is_recorded(earlier, program, evaluated.model):
        return dict(judge_recorded(earlier, program).values)
    request = read_evaluation(earlier, program, evaluated.model)
    if evaluated.here:
        return object_in(here.evaluate(earlier, request) / FILE)
    any_gpus = replace(ready, allow_mixed=True)
    options = ready_options(any_gpus, program, launcher=request.options.launcher)
    folder = earlier.run.results / FOLDER
    chosen = training.TrainOptions(request, options, folder, stop_policy=policy)
    done = training.train(hosts(), chosen)
    return object_in(done.results / FILE)
