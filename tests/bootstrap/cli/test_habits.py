"""What is typed by habit, or with a slip, is answered with a command that exists."""

from __future__ import annotations

from dataclasses import fields

import pytest
from invoke import Collection

import fabfile
from bootstrap.cli.command_line import habits
from training.config import TrainConfig

COLLECTION = Collection.from_module(fabfile)
TASKS = {name.replace("_", "-"): COLLECTION[name] for name in COLLECTION.task_names}


def flags(task: str) -> set[str]:
    return {f"--{one.name.replace('_', '-')}" for one in TASKS[task].get_arguments()}


@pytest.mark.parametrize("habit", habits.TASKS)
def test_the_command_for_a_habit_exists(habit: str) -> None:
    task, *options = habits.TASKS[habit].replace("data push", "data-push").split()
    assert habit not in TASKS
    assert task in ("--help", "--version") or set(options) <= flags(task)


@pytest.mark.parametrize("habit", habits.TRAIN)
def test_the_option_for_a_habit_exists(habit: str) -> None:
    assert habit not in flags("train")
    first, *values = habits.TRAIN[habit].split()
    if not first.startswith("-"):
        assert first in TASKS
        return
    assert first in flags("train")
    if first == "--set":
        assert values[0].partition("=")[0] in {field.name for field in fields(TrainConfig)}


@pytest.mark.parametrize(
    ("unknown", "command"),
    [
        ("help", "fab --help"),
        ("destroy", "fab teardown --destroy"),
        ("price", "fab status"),
        ("login", "fab doctor"),
        ("statsu", "fab status"),
        ("tran", "fab train"),
        ("abc", "fab --list"),
        ("zz", "fab --list"),
        ("undeply", "fab undeploy"),
    ],
)
def test_an_unknown_task_is_answered_with_the_likely_one(unknown: str, command: str) -> None:
    assert habits.task_for(unknown, TASKS) == command


@pytest.mark.parametrize(
    ("task", "unknown", "command"),
    [
        ("train", "--gpus", "fab train --slots"),
        ("train", "--epochs", "fab train --set epochs=3"),
        ("train", "--prest", "fab train --preset"),
        ("train", "--dry-run", "fab plan"),
        ("train", "--zzzz", "fab --help train"),
        ("health", "--epochs", "fab --help health"),
    ],
)
def test_an_unknown_option_is_answered_with_the_likely_one(
    task: str, unknown: str, command: str
) -> None:
    assert habits.option_for(task, unknown, flags(task)) == command


@pytest.mark.parametrize(
    ("first", "second", "letters"),
    [("", "abc", 3), ("abc", "abc", 0), ("statsu", "status", 2), ("a", "b", 1)],
)
def test_the_distance_of_two_words(first: str, second: str, letters: int) -> None:
    assert habits.distance(first, second) == habits.distance(second, first) == letters
