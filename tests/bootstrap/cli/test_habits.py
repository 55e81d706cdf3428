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
from places import ROOT

from bootstrap.cli import program
from bootstrap.cli.command_line import answers, habits
from bootstrap.cli.program import TASKS
from bootstrap.cli.running import Exit
from bootstrap.cli.task import CLOUD
from bootstrap.errors import DONE, USAGE

CASES = [
    tuple(part.strip() for part in line.split("=>"))
    for line in (ROOT / "tests/cases/habits.txt").read_text().splitlines()
    if not line.startswith("#")
]


def understood(line: str) -> None:
    """Read a command line. Exit: it was refused, or it was for help."""
    before, _, after = line.partition(" -- ")
    with contextlib.redirect_stdout(io.StringIO()):
        program._understood(shlex.split(before), shlex.split(after), TASKS)


def answered(line: str) -> str:
    """The next line."""
    with pytest.raises(Exit) as refused:
        understood(line)
    assert refused.value.code == USAGE
    return str(refused.value).partition("next: fab ")[2]


@cache
def works(line: str) -> bool:
    """Whether a line is accepted; with RUN it stands for the id of a run."""
    try:
        understood(line.partition("   # ")[0].partition(" | ")[0])
    except Exit as refused:
        return refused.code == DONE
    return True


@pytest.mark.parametrize(("typed", "answer"), CASES)
def test_a_habit_is_answered_with_a_line_that_works(typed: str, answer: str) -> None:
    if not answer:
        assert works(typed)
        return
    assert answered(typed) == answer
    assert works(answer)


@pytest.mark.parametrize("typed", ["runs report", "fetch 20261122-052802-6693 report"])
def test_two_tasks_in_a_line_become_one_after_the_other(typed: str) -> None:
    first = typed.split()[0]
    assert answered(typed) == f"{first} ... && fab report ..."


def test_the_program_refuses_what_a_habit_answers() -> None:
    with pytest.raises(Exit) as refused:
        understood("train --gpus 2")
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
    of_machines = {name for name, task in TASKS.items() if task.group == CLOUD}
    assert {*answers.MACHINES} == of_machines - {"doctor", "leaks", "price"}
    for name in answers.MACHINES:
        slips = {name[:index] + name[index + 1 :] for index in range(len(name))}
        slips |= {name[:index] + "x" + name[index:] for index in range(len(name) + 1)}
        for slip in slips - {*TASKS}:
            assert answers.slip(slip, TASKS) not in answers.MACHINES


def test_a_job_is_not_taken_for_a_host() -> None:
    words = ["train", "--hosts", "a", "digits"]
    reply = answers.answer(words, TASKS)
    assert reply and reply.next == "train --hosts a,digits"
    assert answers.answer(words, TASKS, is_job=lambda name: name == "digits") is None
