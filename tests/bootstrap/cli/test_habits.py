"""What is typed by habit or with a slip is answered with the line to type instead.

tests/cases/habits.txt has what people typed and the answer, without the program's name; nothing
after `=>`: it works as typed.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from functools import cache

import pytest
from invoke import Collection, Exit
from places import ROOT

import fabfile
from bootstrap.cli.command_line import answers, habits
from bootstrap.cli.program import Program, new_program
from bootstrap.cli.task import CLOUD, GroupTask
from bootstrap.errors import DONE, USAGE

CASES = [
    tuple(part.strip() for part in line.split("=>"))
    for line in (ROOT / "tests/cases/habits.txt").read_text().splitlines()
    if not line.startswith("#")
]


@cache
def collection() -> Collection:
    return Collection.from_module(fabfile)


def parsed(line: str) -> Program:
    """The program that has read a command line. Exit: it was refused, or it was for help."""
    program = new_program()
    with contextlib.redirect_stdout(io.StringIO()):
        program.create_config()
        program.parse_core(["fab", *shlex.split(line)])
        program.collection = collection()
        program.parse_tasks()
        program.parse_cleanup()
    return program


@cache
def tasks() -> dict[str, GroupTask]:
    return {name: collection()[name] for name in collection().task_names}


def answered(line: str) -> str:
    """The next line; where no habit answers, that of the whole program."""
    words = shlex.split(line)
    own = words[: words.index("--")] if "--" in words else words
    after = words[len(own) + 1 :]
    found = answers.answer(own, tasks()) or answers.after_dashes(own, after)
    if found:
        return found.next
    with pytest.raises(Exit) as refused:
        parsed(line)
    assert refused.value.code == USAGE
    return str(refused.value).partition("next: fab ")[2]


@cache
def works(line: str) -> bool:
    """Whether a line is accepted; with RUN it stands for the id of a run."""
    try:
        program = parsed(line.partition("   # ")[0].partition(" | ")[0])
    except Exit as refused:
        return refused.code == DONE
    return not program.core.remainder


@pytest.mark.parametrize(("typed", "wanted"), CASES)
def test_a_habit_is_answered_with_a_line_that_works(typed: str, wanted: str) -> None:
    if not wanted:
        assert works(typed)
        return
    assert answered(typed) == wanted
    assert works(wanted)


def test_the_program_refuses_what_a_habit_answers() -> None:
    with pytest.raises(Exit) as refused:
        parsed("train --gpus 2")
    text = "fab train has no option --gpus\n  next: fab train --slots 2"
    assert (refused.value.code, str(refused.value)) == (USAGE, text)


def test_there_are_cases_for_every_table() -> None:
    assert len(CASES) >= 150
    typed = {case[0] for case in CASES}
    firsts = {line.split()[0] for line in typed}
    assert {*habits.TASKS} <= firsts
    options = {
        (line.split()[0], word.partition("=")[0].replace("_", "-"))
        for line in typed
        for word in line.split()
    }
    assert not [
        (task, option)
        for task, some in habits.OPTIONS.items()
        for option in some
        if task and (task, option) not in options
    ]


def test_no_slip_is_answered_with_a_task_that_starts_or_ends_machines() -> None:
    of_machines = {name for name, task in tasks().items() if task.group == CLOUD}
    assert {*answers.MACHINES} == of_machines - {"doctor", "leaks", "price"}
    for name in answers.MACHINES:
        slips = {name[:at] + name[at + 1 :] for at in range(len(name))}
        slips |= {name[:at] + "x" + name[at:] for at in range(len(name) + 1)}
        for slip in slips - {*tasks()}:
            assert answers.slip(slip, tasks()) not in answers.MACHINES


def test_a_job_is_not_taken_for_a_host() -> None:
    words = ["train", "--hosts", "a", "digits"]
    found = answers.answer(words, tasks())
    assert found and found.next == "train --hosts a,digits"
    assert answers.answer(words, tasks(), is_job=lambda name: name == "digits") is None


@pytest.mark.parametrize(
    ("first", "second", "letters"),
    [("", "abc", 3), ("abc", "abc", 0), ("statsu", "status", 1), ("a", "b", 1), ("ab", "ba", 1)],
)
def test_the_distance_of_two_words(first: str, second: str, letters: int) -> None:
    assert answers.distance(first, second) == answers.distance(second, first) == letters
