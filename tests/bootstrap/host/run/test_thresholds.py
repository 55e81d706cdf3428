"""A run's metrics judged by thresholds: which ones are not reached, and the sentence for each."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bootstrap.host.run.thresholds import judged
from railhead.documents.runs.evaluation import Judgement, Reported, Threshold

AT_LEAST, AT_MOST = Threshold("accuracy", "min", 0.9), Threshold("loss", "max", 0.2)


@pytest.mark.parametrize(
    ("evaluation", "failed"),
    [
        ({"accuracy": 0.9, "loss": 0.2}, []),
        ({"accuracy": "0.95", "loss": 0}, []),
        ({"accuracy": 0.89, "loss": 0.1}, ["accuracy 0.89 is below --min accuracy=0.9"]),
        ({"accuracy": 1, "loss": 0.3}, ["loss 0.3 is above --max loss=0.2"]),
        (
            {"accuracy": math.nan, "loss": 0},
            ["--min accuracy=0.9: the run has no metric 'accuracy'; it has loss"],
        ),
        (
            {"mae": 10**400, "loss": 0, "f1": "0.5", "name": "x", "empty": None},
            ["--min accuracy=0.9: the run has no metric 'accuracy'; it has f1, loss"],
        ),
        ({"accuracy": 0.123456, "loss": 0}, ["accuracy 0.1235 is below --min accuracy=0.9"]),
        (
            {"f1": True},
            [
                "--min accuracy=0.9: the run has no metric 'accuracy'; it has none",
                "--max loss=0.2: the run has no metric 'loss'; it has none",
            ],
        ),
    ],
)
def test_an_evaluation_is_judged(evaluation: dict[str, Any], failed: list[str]) -> None:
    judgement = judged(Reported(evaluation), [AT_LEAST, AT_MOST])
    assert judgement == Judgement((AT_LEAST, AT_MOST), tuple(failed), not failed)


def test_without_a_threshold_nothing_has_passed() -> None:
    assert judged(Reported({"f1": 1.0}), []).passed is None
    assert judged(Reported({"f1": 1.0, "passed": True}), []).passed is True
    assert judged(Reported({"passed": False}), []).passed is False


@pytest.mark.parametrize("metric", ["f1", "precision", "recall", "auc", "accuracy"])
def test_a_figure_of_all_classes_is_not_judged_without_samples_of_one(metric: str) -> None:
    values = {metric: 1.0, "missing_classes": ["no", "yes"]}
    judgement = judged(Reported(values), [Threshold(metric, "min", 0.9)])
    assert judgement.passed is (metric == "accuracy")
    assert all(
        "classes no, yes" in why and f"--min {metric}=0.9" in why for why in judgement.failed
    )


def test_what_a_program_judges_itself_stays_failed() -> None:
    assert judged(Reported({"accuracy": 1, "passed": False}), [AT_LEAST]).passed is False
