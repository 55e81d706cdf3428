"""The pages of `fab --help TASK`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from standins.forks import forked_fab

from bootstrap.cli.command_line.arguments import read, with_name
from bootstrap.cli.command_line.help import EXAMPLES, task_page
from bootstrap.cli.program import TASKS
from bootstrap.cli.task import values_of
from pages.help_pages import FOLDER, HELP, LIST


@pytest.mark.parametrize("name", TASKS)
def test_a_page_has_each_option_once_and_an_example_that_is_valid(name: str) -> None:
    task = TASKS[name]
    page = task_page(task)
    lines = page.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    for option in task.options():
        typed = option.name.upper() if option.rule.positional else f"--{option.flag}"
        mine = [line for line in lines if typed in line.partition("  " * 3)[0].split()]
        assert len([line for line in mine if line.startswith("  ")]) == 1, option.flag
    words, _, after = EXAMPLES[task.typed].partition(" -- ")
    line = read(*with_name(shlex.split(words), TASKS), TASKS, shlex.split(after))
    values_of(task.parts, line.texts)
    assert line.task is task


def test_what_is_printed_is_the_generated_text(tmp_path: Path) -> None:
    """tests/test_docs.py compares the files with the declarations."""
    names = {path.stem for path in FOLDER.glob("*")}
    assert names == {*TASKS, LIST, HELP}
    for args, name in (("--list", LIST), ("--help", HELP), ("data push --help", "data-push")):
        printed = forked_fab(tmp_path, *args.split()).stdout
        assert printed == (FOLDER / f"{name}.txt").read_text()


def test_each_task_has_an_example() -> None:
    assert {*EXAMPLES} == {task.typed for task in TASKS.values()}


def test_options_are_in_groups_with_what_they_take() -> None:
    page = task_page(TASKS["train"])
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
    assert "--script PATH" in page and "-f, --follow" in task_page(TASKS["logs"])
