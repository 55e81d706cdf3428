"""The page of `fab --help`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from invoke import Argument, Collection, Task

from railhead.documents.installation import DOCS, PROGRAM

from .core_options import WORKING, flags_of, name_of

TASKS_PER_LINE = 6
_GROUPS: dict[str, ModuleType] = {}


def add_groups(groups: Mapping[str, ModuleType]) -> None:
    """The modules of tasks by the titles of their groups; the fabfile names them."""
    _GROUPS.update(groups)


def tasks_of(module: ModuleType) -> list[Task[Any]]:
    """The tasks of a module."""
    return list(Collection.from_module(module).tasks.values())


def task_names(module: ModuleType) -> list[str]:
    """The names of a module's tasks on the command line."""
    return [str(task.name).replace("_", "-") for task in tasks_of(module)]


def page(arguments: Iterable[Argument]) -> str:
    """The text of `fab --help`: the groups of tasks and, of the core options, those that work."""
    groups = {title: task_names(module) for title, module in _GROUPS.items()}
    known = {name_of(argument): argument for argument in arguments}
    options = {flags_of(known[name]): WORKING[name][1] for name in WORKING if name in known}
    width = max(map(len, options))
    return "\n".join(
        [
            f"Usage: {PROGRAM} TASK [OPTION ...]",
            *(line for title, names in groups.items() for line in _group(title, names)),
            "",
            "Options before or after the task:",
            *(f"  {flags:{width}}  {text}" for flags, text in options.items()),
            "",
            f"next: {PROGRAM} --help TASK   # its options; {DOCS}/tasks.md describes them",
        ]
    )


def _group(title: str, names: list[str]) -> list[str]:
    starts = range(0, len(names), TASKS_PER_LINE)
    return ["", f"{title}:", *(f"  {', '.join(names[i : i + TASKS_PER_LINE])}" for i in starts)]
