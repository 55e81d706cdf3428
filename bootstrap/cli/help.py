"""The tasks in their groups, and the page of `fab --help`."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from fabric.main import program
from invoke import Argument, Collection, Task

from bootstrap.cli import machine_tasks, result_tasks, serving_tasks, tasks
from bootstrap.cli.core_options import WORKING, flags_of, name_of
from bootstrap.cli.executor import usage_is_2

GROUPS: dict[str, ModuleType] = {
    "Train, and follow runs": tasks,
    "Evaluate, compare and search": result_tasks,
    "Serve models": serving_tasks,
    "Machines": machine_tasks,
}
TASKS_PER_LINE = 6


def install() -> None:
    """Make `fab --help` print our page; fabfile.py calls it on import."""
    program.print_help = usage_is_2(lambda: print(page(program.initial_context.args.values())))


def tasks_of(module: ModuleType) -> list[Task[Any]]:
    """The tasks of a module."""
    return list(Collection.from_module(module).tasks.values())


def page(arguments: Iterable[Argument]) -> str:
    """What `fab --help` prints: the groups of tasks and, of the core options, those that work."""
    known = {name_of(argument): argument for argument in arguments}
    options = {flags_of(known[name]): WORKING[name][1] for name in WORKING if name in known}
    width = max(map(len, options))
    return "\n".join(
        [
            "Usage: fab TASK [OPTION ...]",
            *(line for title, module in GROUPS.items() for line in _group(title, module)),
            "",
            "Options before or after the task:",
            *(f"  {flags:{width}}  {text}" for flags, text in options.items()),
            "",
            "next: fab --help TASK   # its options; docs/tasks.md describes them",
        ]
    )


def _group(title: str, module: ModuleType) -> list[str]:
    names = [str(task.name).replace("_", "-") for task in tasks_of(module)]
    starts = range(0, len(names), TASKS_PER_LINE)
    return ["", f"{title}:", *(f"  {', '.join(names[i : i + TASKS_PER_LINE])}" for i in starts)]
