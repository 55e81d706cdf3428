"""All tasks, for the fabfile of a project: `from railhead.tasks import ns`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bytecode import keep
from .installation import PREFIX

if TYPE_CHECKING:
    from invoke import Collection

before = sys.dont_write_bytecode  # Invoke has set it for the fabfile
keep()
_fabrics: Any = import_module(f"{PREFIX}bootstrap.cli.fabric_tasks")
_ours: Any = import_module(f"{PREFIX}bootstrap.cli.program")
ns: Collection = _fabrics.collection(_ours.TASKS)
ClusterExecutor = _fabrics.ClusterExecutor  # for fabric.yaml: one run for all hosts
sys.dont_write_bytecode = before
