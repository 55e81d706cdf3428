"""All tasks."""

from __future__ import annotations

from collections.abc import Mapping

from . import machine_tasks, result_tasks, serving_tasks, tasks
from .task import Task

MODULES = (tasks, result_tasks, serving_tasks, machine_tasks)
TASKS: Mapping[str, Task] = {
    value.name: value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, Task)
}
