"""Outputs of a model that become answers."""

from __future__ import annotations

from typing import Any

import pytest

from training.serving.client import Samples, report

CLASSES = {"settings": {"task": "classification"}, "classes": ["cat", "dog"]}
BINARY = {"settings": {"task": "binary"}, "classes": ["no", "yes"]}
REGRESSION = {"settings": {"task": "regression"}, "classes": []}


@pytest.mark.parametrize(
    ("training", "outputs", "labels", "answers", "accuracy"),
    [
        (CLASSES, [[0, 2], [3, 0]], [1, 1], [("dog", "dog"), ("cat", "dog")], 0.5),
        (CLASSES, [[0, 2]], None, [("dog", None)], None),
        (BINARY, [[2.0], [-2.0]], [1, 0], [("yes", "yes"), ("no", "no")], 1.0),
        (REGRESSION, [[2.5]], [2.0], [("[2.5]", "2")], None),
        (None, [[2.5]], None, [("[2.5]", None)], None),
    ],
)
def test_outputs_become_answers(
    training: Any, outputs: Any, labels: Any, answers: Any, accuracy: float | None
) -> None:
    scores = report(Samples([], labels), outputs, training)
    assert [(row["prediction"], row["right"]) for row in scores["rows"]] == answers
    assert scores["accuracy"] == accuracy and scores["outputs"] == outputs


def test_the_score_of_a_class_is_its_probability() -> None:
    (row,) = report(Samples([]), [[0.0, 1000.0]], CLASSES)["rows"]
    assert row["score"] == pytest.approx(1.0)
    (row,) = report(Samples([]), [[1.0, 1.0]], CLASSES)["rows"]
    assert row["score"] == pytest.approx(0.5)
