"""All tasks."""

from __future__ import annotations

from invoke import Collection

from . import machine_tasks, result_tasks, serving_tasks, tasks

MODULES = (tasks, result_tasks, serving_tasks, machine_tasks)
ns = Collection()
for module in MODULES:
    for task in Collection.from_module(module).tasks.values():
        ns.add_task(task)
