"""All tasks, for the fabfile of a project: `from railhead.tasks import ns`."""

from __future__ import annotations

from importlib import import_module

from invoke import Collection

from .installation import PREFIX

ns: Collection = import_module(f"{PREFIX}bootstrap.cli.collection").ns
