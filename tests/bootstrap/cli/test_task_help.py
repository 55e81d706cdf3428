"""The pages of `fab --help TASK`."""

from __future__ import annotations

import shlex

import pytest
from invoke import Parser

from bootstrap.cli.collection import ns
from bootstrap.cli.help import EXAMPLES, task_page
from bootstrap.cli.task import GroupTask, values_of


def task_named(name: str) -> GroupTask:
    task = ns[name]
    assert isinstance(task, GroupTask)
    return task


@pytest.mark.parametrize("name", ns.task_names)
def test_a_page_has_each_option_once_and_an_example_that_is_valid(name: str) -> None:
    task = task_named(name)
    page = task_page(task)
    lines = page.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    for one in task.options():
        typed = one.name.upper() if one.rule.positional else f"--{one.flag}"
        mine = [line for line in lines if typed in line.partition("  " * 3)[0].split()]
        assert len([line for line in mine if line.startswith("  ")]) == 1, one.flag
    (context,) = Parser(contexts=ns.to_contexts()).parse_argv(shlex.split(EXAMPLES[name]))
    values_of(task.parts, context.as_kwargs)
    assert EXAMPLES[name].split()[0] == name


def test_each_task_has_an_example() -> None:
    assert {*EXAMPLES} == {*ns.task_names}


def test_options_are_in_groups_with_what_they_take() -> None:
    page = task_page(task_named("train"))
    titles = [line[:-1] for line in page.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[:4] == ["Hosts", "Program", "Preparation of the hosts", "End of the run"]
    for text in (
        "--set NAME=VALUE",
        "--keras auto|2|3",
        "--max-hours TIME",
        "--slots N",
        "--start\n",
    ):
        assert text.strip() in page
    assert "--script PATH" in page and "-f, --follow" in task_page(task_named("logs"))
