"""`fab --list` shows what can be done. The tasks are in bootstrap/tasks.py."""

from invoke import Collection

from bootstrap import program, tasks

program.install()
ns = Collection.from_module(tasks)
