"""Runs a command line with a fabfile of the user's own: its tasks by Fabric, and ours, where it has
them, by our program."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric import Config, __version__
from fabric.main import Fab
from invoke import Task

from railhead.bytecode import keep
from railhead.ctrl_c import raise_again

from .fabric_tasks import ClusterExecutor, FabricTask


def run_with(words: Sequence[str], run: Callable[..., None]) -> None:
    """Run a command line that names the folder of a fabfile.

    Args:
        run: runs it where it is for our tasks, given those of the fabfile, and the first lines
            about the user's.

    Raises:
        Exit, SystemExit: as the task ends.
    """
    fabric = _Fabric(
        name="Fabric", version=__version__, executor_class=ClusterExecutor, config_class=Config
    )
    try:
        fabric.run(["fab", *words])
    except _Ours as ours:
        run(ours.tasks, ours.others)


class _Ours(Exception):
    """The command line is for our program."""

    def __init__(self, tasks: Mapping[str, Task[Any]]) -> None:
        super().__init__()
        self.tasks = {
            name: task.of_railhead for name, task in tasks.items() if isinstance(task, FabricTask)
        }
        self.others = {
            name: (tasks[name].__doc__ or "").strip().partition("\n")[0]
            for name in tasks.keys() - self.tasks.keys()
        }


class _Fabric(Fab):  # type: ignore[misc]
    """Fabric's program, which leaves to ours all but the user's own tasks."""

    def load_collection(self) -> None:
        """Load the fabfile."""
        # With --debug, Invoke would print the configuration that it reads now, with passwords.
        logging.getLogger().setLevel(logging.WARNING)
        super().load_collection()
        tasks = {name: self.collection[name] for name in self.collection.task_names}
        ours = _Ours(tasks)
        if ours.tasks and not self._names_one_of(ours.others):
            keep()
            raise ours
        if self.core[0].args.debug.value and not ours.tasks:
            logging.getLogger().setLevel(logging.DEBUG)

    def _names_one_of(self, names: Mapping[str, str]) -> bool:
        topic, words = self.core[0].args.help.value, self.core.unparsed
        return topic in names or any(word in names for word in words[:1])

    def execute(self) -> None:
        """Run the tasks: each ends its work at Ctrl-C."""
        raise_again()
        gc.enable()
        super().execute()

    def print_help(self) -> None:
        """The help page, which needs to know the tasks."""
        self.load_collection()
        super().print_help()
