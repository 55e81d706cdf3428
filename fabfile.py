"""`fab --list` shows what can be done. The tasks are in bootstrap/cli."""

from invoke import Collection

from bootstrap.cli import executor, result_tasks, tasks

executor.install()
ns = Collection.from_module(tasks)
for task in Collection.from_module(result_tasks).tasks.values():
    ns.add_task(task)
