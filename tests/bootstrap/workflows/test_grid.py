"""The trials of a sweep: combinations, slices of hosts, and which trials are hopeless."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from standins.options import program, typed

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.runs.request import split
from bootstrap.workflows.series import grid
from bootstrap.workflows.series.early_end import Course, is_hopeless
from bootstrap.workflows.series.grid import Trial, slices_of
from railhead.documents.codec import decode
from railhead.documents.options.runs import SweepOptions
from railhead.documents.runs.records import Record


def read_trials(texts: list[str], drawn: int | None) -> tuple[Trial, ...]:
    """The trials of `--set`, as it is typed."""
    return grid.read_trials(typed(SweepOptions, values=texts).values, drawn)


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
    assert read_trials(["a=1,2", "b=x,y"], 4) == trials, "all of them, in their order"
    few = read_trials(["a=" + ",".join(map(str, range(50)))], 3)
    assert [trial.name for trial in few] == ["a=24", "a=48", "a=26"], "the same everywhere"


def test_some_of_very_many_combinations_are_drawn_without_listing_them() -> None:
    texts = [f"{name}=0,1,2,3,4,5,6,7,8,9" for name in "abcdefghijklmnopqrst"]
    assert len({trial.name for trial in read_trials(texts[:12], 3)}) == 3
    of_twelve = read_trials(["a=1,2,3", "b=x,y", "c=u,v"], 2)
    assert [trial.name for trial in of_twelve] == ["a=2 b=y c=u", "a=3 b=y c=v"], "as of 0.1.0"
    with pytest.raises(UsageError, match=f"{10**12} combinations: at most 100"):
        read_trials(texts[:12], None)
    with pytest.raises(UsageError, match=f"{10**20} combinations: --random draws from at most"):
        read_trials(texts, 3)


def test_a_value_may_have_an_equals_sign() -> None:
    assert read_trials(["a=b=c"], None) == (Trial({"a": "b=c"}),)


def test_a_sweep_needs_a_setting() -> None:
    with pytest.raises(UsageError) as caught:
        read_trials([], None)
    rule = "--set NAME=VALUE,VALUE,...: at least one"
    assert str(caught.value) == f"{rule}\n  next: fab sweep --set learning_rate=0.01,0.001"


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
    assert len(read_trials(["a=0,1,2,3,4,5,6,7,8,9", "b=0,1,2,3,4,5,6,7,8,9"], None)) == 100


def test_values_are_settings_or_arguments() -> None:
    trial = Trial({"lr": "0.1", "name": "a b"})
    assert trial.args(program(settings=("x=1",))).settings == {"x": "1", "lr": "0.1", "name": "a b"}
    script = trial.args(program(script="t.py", args="--epochs 3"))
    assert split(script.args or "") == ("--epochs", "3", "--lr", "0.1", "--name", "a b")
    assert trial.args(program(script="t.py")).args == "--lr 0.1 --name 'a b'"


def test_values_are_hyperparameters_where_the_arguments_are_an_object() -> None:
    trial = Trial({"lr": "0.1", "name": "a b"})
    base = program(script="t.py", args='{"lr": 1, "on": true}', sagemaker="3")
    assert json.loads(trial.args(base).args or "") == {"lr": 0.1, "on": True, "name": "a b"}


FOUR = Inventory("c", tuple(Host(f"h{n}", f"10.0.0.{n}") for n in (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("at_once", "slices"),
    [(1, ["h1 h2 h3 h4"]), (2, ["h1 h2", "h3 h4"]), (4, ["h1", "h2", "h3", "h4"])],
)
def test_the_hosts_are_divided_into_equal_slices(at_once: int, slices: list[str]) -> None:
    assert [" ".join(part.names) for part in slices_of(FOUR, at_once, 9)] == slices


@pytest.mark.parametrize(
    ("at_once", "trials", "choices", "nearest"),
    [(3, 9, "1, 2, 4", 2), (5, 9, "1, 2, 4", 4), (4, 3, "1, 2", 2), (2, 1, "1", 1)],
)
def test_a_division_that_leaves_hosts_is_refused(
    at_once: int, trials: int, choices: str, nearest: int
) -> None:
    with pytest.raises(UsageError) as caught:
        slices_of(FOUR, at_once, trials)
    assert str(caught.value) == (
        f"--at-once {at_once}: {at_once} must divide 4 hosts into equal slices, and there must be"
        f" a trial for each slice ({trials} {'trial' if trials == 1 else 'trials'} in all);"
        f" choices: {choices}"
        f"\n  next: fab sweep --at-once {nearest}"
    )


# --- Hopeless trials -------------------------------------------------------------------------


def course(*values: float, metric: str = "val_accuracy", epochs: int = 6) -> Course:
    built = Course()
    for epoch, value in enumerate(values, 1):
        built.add(Record("epoch", epoch=epoch, epochs=epochs, figures={metric: value}))
    return built


GOOD = [(0.5, 0.7, 0.8, 0.9, 0.9, 0.9), (0.4, 0.6, 0.7, 0.8, 0.9, 0.9)]
ONES = [(1.0,) * 6] * 2
ACCURACY, LOSS = "val_accuracy", "val_loss"


@pytest.mark.parametrize(
    ("values", "metric", "others", "of", "hopeless"),
    [
        ((0.1, 0.1), ACCURACY, GOOD * 2, ACCURACY, True),  # a third of the epochs, four others
        ((0.1, 0.1), ACCURACY, [*GOOD, GOOD[0]], ACCURACY, False),  # three others
        ((0.1,) * 3, ACCURACY, GOOD, ACCURACY, True),  # half of the epochs, two others
        ((0.1,) * 3, ACCURACY, GOOD[:1], ACCURACY, False),
        ((0.1,), ACCURACY, GOOD * 2, ACCURACY, False),  # too early
        ((0.65, 0.6), ACCURACY, GOOD * 2, ACCURACY, False),  # its best value counts
        ((), ACCURACY, GOOD, ACCURACY, False),
        ((0.1,) * 6, ACCURACY, GOOD, ACCURACY, False),  # it has ended anyway
        ((2,) * 3, LOSS, GOOD, ACCURACY, False),  # another metric
        ((2,) * 3, LOSS, ONES, LOSS, True),
        ((2,) * 3, "val_mae", ONES, "val_mae", True),
        ((0.5,) * 3, "val_mae", ONES, "val_mae", False),
        ((0.5,) * 3, LOSS, ONES, LOSS, False),
        ((1,) * 3, LOSS, ONES, LOSS, False),  # as good as the median
        ((0.1, math.nan), ACCURACY, GOOD * 2, ACCURACY, False),
    ],
)
def test_a_trial_is_hopeless_below_the_median(
    values: tuple[float, ...], metric: str, others: list[tuple[float, ...]], of: str, hopeless: bool
) -> None:
    finished = [course(*other, metric=of) for other in others]
    assert is_hopeless(course(*values, metric=metric), finished) is hopeless


@pytest.mark.parametrize(
    "change", [{"epoch": math.inf}, {"val_loss": "nan"}, {"val_loss": True}, {"kind": "step"}]
)
def test_other_records_and_those_without_finite_numbers_are_ignored(change: dict[str, Any]) -> None:
    empty = Course()
    values = {"kind": "epoch", "epoch": 1, "epochs": 6, "val_loss": "0.5", **change}
    empty.add(decode(Record, values))
    assert not empty.values


def test_a_record_may_lack_the_number_of_epochs() -> None:
    epochs = Course()
    epochs.add(Record("epoch", epoch=0, figures={"val_loss": 0.5}))
    assert (epochs.values, epochs.epochs, epochs.metric) == ({0: -0.5}, 0, "val_loss")
    epochs.add(Record("epoch", epoch=1, epochs=2, figures={"val_accuracy": 0.5}))
    assert epochs.values[1] == 0.5
