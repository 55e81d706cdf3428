"""All tasks."""

from __future__ import annotations

from invoke import Collection

from . import machine_tasks, result_tasks, serving_tasks, tasks
from .task import GroupTask

MODULES = (tasks, result_tasks, serving_tasks, machine_tasks)
ns = Collection()
for module in MODULES:
    for value in vars(module).values():
        if isinstance(value, GroupTask):
            ns.add_task(value)
