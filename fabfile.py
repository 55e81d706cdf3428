"""`fab --list` shows what can be done. The tasks are in bootstrap/cli/tasks.py."""

from invoke import Collection

from bootstrap.cli import executor, tasks

executor.install()
ns = Collection.from_module(tasks)
