"""The pages of `fab --help TASK`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from invoke import Parser
from standins.forks import forked_fab

from bootstrap.cli.collection import ns
from bootstrap.cli.command_line.arguments import join_task_names, name_first_arguments
from bootstrap.cli.command_line.help import EXAMPLES, task_page
from bootstrap.cli.executor import dashed
from bootstrap.cli.task import GroupTask, values_of
from bootstrap.plan.runtimes import ROWS
from pages.help_pages import FOLDER, HELP, LIST
from railhead.documents.options.option import options_in
from railhead.documents.options.runs import ProgramOptions

TASKS = {name: ns[name] for name in ns.task_names}


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
    typed = dashed(name)
    words, _, after = EXAMPLES[typed].partition(" -- ")
    named = name_first_arguments(join_task_names(shlex.split(words), TASKS), TASKS)
    argv = [*named, "--cmd", after] if after else named
    (context,) = Parser(contexts=ns.to_contexts()).parse_argv(argv)
    values_of(task.parts, context.as_kwargs)
    assert EXAMPLES[typed].split()[: len(typed.split())] == typed.split()


def test_what_is_printed_is_the_generated_text(tmp_path: Path) -> None:
    """tests/test_docs.py compares the files with the declarations."""
    names = {path.stem for path in FOLDER.glob("*")}
    assert names == {*ns.task_names, LIST, HELP}
    for args, name in (("--list", LIST), ("--help", HELP), ("data push --help", "data-push")):
        printed = forked_fab(tmp_path, *args.split()).stdout
        assert printed == (FOLDER / f"{name}.txt").read_text()


def test_each_task_has_an_example() -> None:
    assert {*EXAMPLES} == {*map(dashed, ns.task_names)}


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


def test_the_help_lists_every_runtime() -> None:
    (option,) = [one for one in options_in(ProgramOptions) if one.name == "runtime"]
    assert not [name for name in ROWS if name not in option.rule.help]
