"""The trials of a sweep: combinations, slices of hosts, and which trials are hopeless."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bootstrap.errors import UsageError
from bootstrap.evaluation.grid import Course, Trial, is_hopeless, read_trials, slices_of
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.runs.request import TrainArgs, split


def test_a_course_of_many_epochs_is_read_in_one_pass() -> None:
    """A host writes the records. With a look at all epochs for each, this takes six minutes."""
    long = course(*(n / 200_000 for n in range(200_000)))
    assert long.values[1] < long.values[100_000] < long.values[200_000] == long.best


def test_all_combinations_are_trials() -> None:
    trials = read_trials(["a=1,2", "b=x, y"], None)
    assert [trial.name for trial in trials] == ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]
    drawn = read_trials(["a=1,2", "b=x,y"], 3)
    assert len({trial.name for trial in drawn}) == 3
    assert drawn == read_trials(["a=1,2", "b=x,y"], 3)


@pytest.mark.parametrize(
    "texts", [[], ["a"], ["a="], ["=1"], ["a=,"], ["a=1", "a=2"], ["a=" + ",".join("12") * 60] * 2]
)
def test_other_forms_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--set"):
        read_trials(texts, None)


def test_too_many_combinations_name_the_way_out() -> None:
    texts = [f"{name}=" + ",".join(map(str, range(11))) for name in "ab"]
    with pytest.raises(UsageError, match="121 combinations: at most 100") as caught:
        read_trials(texts, None)
    assert "--random" in caught.value.hint


def test_values_are_settings_or_arguments() -> None:
    trial = Trial({"lr": "0.1", "name": "a b"})
    assert trial.args(TrainArgs(settings=("x=1",))).settings == ("x=1", "lr=0.1", "name=a b")
    script = trial.args(TrainArgs(script="t.py", args="--epochs 3"))
    assert split(script.args or "") == ("--epochs", "3", "--lr", "0.1", "--name", "a b")


FOUR = Inventory("c", tuple(Host(f"h{n}", f"10.0.0.{n}") for n in (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("at_once", "slices"),
    [(1, ["h1 h2 h3 h4"]), (2, ["h1 h2", "h3 h4"]), (4, ["h1", "h2", "h3", "h4"])],
)
def test_the_hosts_are_divided_into_equal_slices(at_once: int, slices: list[str]) -> None:
    assert [" ".join(part.names) for part in slices_of(FOUR, at_once, 9)] == slices


@pytest.mark.parametrize(
    ("at_once", "trials", "choices"),
    [(3, 9, "1, 2, 4"), (5, 9, "1, 2, 4"), (4, 3, "1, 2"), (2, 1, "1")],
)
def test_a_division_that_leaves_hosts_is_refused(at_once: int, trials: int, choices: str) -> None:
    with pytest.raises(UsageError, match=f"--at-once {at_once}: .*; choices: {choices}\n"):
        slices_of(FOUR, at_once, trials)


# --- Hopeless trials -------------------------------------------------------------------------


def course(*values: float, metric: str = "val_accuracy", epochs: int = 6) -> Course:
    found = Course()
    for epoch, value in enumerate(values, 1):
        found.add({"kind": "epoch", "epoch": epoch, "epochs": epochs, metric: value})
    return found


GOOD = [course(0.5, 0.7, 0.8, 0.9, 0.9, 0.9), course(0.4, 0.6, 0.7, 0.8, 0.9, 0.9)]


@pytest.mark.parametrize(
    ("trial", "finished", "hopeless"),
    [
        (course(0.1, 0.1), GOOD, True),
        (course(0.1), GOOD, False),  # too early
        (course(0.65, 0.6), GOOD, False),  # its best value counts
        (course(0.1, 0.1), GOOD[:1], False),  # nothing to compare with
        (course(), GOOD, False),
        (course(*[0.1] * 6), GOOD, False),  # it has ended anyway
        (course(2, 2, metric="val_loss"), GOOD, False),  # another metric
        (course(2, 2, metric="val_loss"), [course(*[1] * 6, metric="val_loss")] * 2, True),
        (course(0.5, 0.5, metric="val_loss"), [course(*[1] * 6, metric="val_loss")] * 2, False),
        (course(0.1, float("nan")), GOOD, False),
    ],
)
def test_a_trial_is_hopeless_below_the_median(
    trial: Course, finished: list[Course], hopeless: bool
) -> None:
    assert is_hopeless(trial, finished) is hopeless


@pytest.mark.parametrize("change", [{"epoch": math.inf}, {"epochs": math.nan}, {"val_loss": "nan"}])
def test_a_record_without_finite_numbers_is_ignored(change: dict[str, Any]) -> None:
    found = Course()
    found.add({"kind": "epoch", "epoch": 1, "epochs": 6, "val_loss": 0.5, **change})
    assert not found.values
