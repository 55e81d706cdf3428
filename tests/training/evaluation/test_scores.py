"""Precision, recall and F1 are those of a confusion matrix; empty classes divide nothing."""

from __future__ import annotations

import pytest

from training.evaluation.scores import Counts, counts_of, means, per_class

CONFUSION = [[4, 1, 0], [2, 3, 0], [0, 0, 0]]


def test_each_class_has_its_precision_and_recall() -> None:
    assert counts_of(CONFUSION)[0] == Counts(samples=5, predicted=6, right=4)
    first, second, third = per_class(counts_of(CONFUSION), ("a", "b", "c"))
    assert (first["class"], first["samples"]) == ("a", 5)
    assert (first["precision"], first["recall"]) == (4 / 6, 4 / 5)
    assert (second["precision"], second["recall"]) == (3 / 4, 3 / 5)
    assert first["f1"] == pytest.approx(2 * (4 / 6) * (4 / 5) / (4 / 6 + 4 / 5))
    assert third == {"class": "c", "samples": 0, "precision": None, "recall": None, "f1": None}


def test_the_means_are_over_the_classes_with_samples() -> None:
    scores = means(per_class(counts_of(CONFUSION), ("a", "b", "c")))
    assert scores["recall"] == pytest.approx((4 / 5 + 3 / 5) / 2)
    never = per_class(counts_of([[0, 2], [0, 0]]), ("a", "b"))
    assert means(never) == {"precision": 0, "recall": 0, "f1": 0}
    assert means([]) == {}
