"""`fab --list` shows what can be done. The tasks are in bootstrap/cli."""

from invoke import Collection

from bootstrap.cli import executor, machine_tasks, result_tasks, serving_tasks, tasks

executor.install()
ns = Collection.from_module(tasks)
for module in (machine_tasks, result_tasks, serving_tasks):
    for task in Collection.from_module(module).tasks.values():
        ns.add_task(task)
