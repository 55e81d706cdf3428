"""All tasks in their groups."""

from __future__ import annotations

from invoke import Collection

from . import help, machine_tasks, result_tasks, serving_tasks, tasks

GROUPS = {
    "Train, and follow runs": tasks,
    "Evaluate, compare and search": result_tasks,
    "Serve models": serving_tasks,
    "Machines": machine_tasks,
}
help.add_groups(GROUPS)
ns = Collection()
for module in GROUPS.values():
    for task in help.tasks_of(module):
        ns.add_task(task)
