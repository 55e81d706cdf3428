"""`fab --list` shows what can be done. The tasks are in bootstrap/cli."""

from invoke import Collection

from bootstrap.cli import executor, help

executor.install()
help.install()
ns = Collection()
for module in help.GROUPS.values():
    for task in help.tasks_of(module):
        ns.add_task(task)
