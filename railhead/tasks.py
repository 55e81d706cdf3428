"""All tasks, for the fabfile of a project: `from railhead.tasks import ns`."""

from __future__ import annotations

import sys
from importlib import import_module

from invoke import Collection

from .bytecode import keep
from .installation import PREFIX

before = sys.dont_write_bytecode  # as Invoke has set it for the fabfile
keep()
ns: Collection = import_module(f"{PREFIX}bootstrap.cli.collection").ns
sys.dont_write_bytecode = before
