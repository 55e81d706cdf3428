"""Our tasks as those of Fabric, for a fabfile: its `fab` lists and runs them, with Invoke's plain
help and messages."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any

import invoke
from fabric import Connection, Executor

from railhead.documents.options.option import Option
from railhead.installation import PROGRAM

from ..errors import USAGE
from .running import RUNNING, Exit
from .task import Task, help_text, parameter


class FabricTask(invoke.Task[Any]):
    """One of our tasks."""

    def __init__(self, task: Task, tasks: Mapping[str, Task]) -> None:
        def body(c: invoke.Context, **texts: Any) -> None:
            if isinstance(c, Connection):
                message = f"one run uses all hosts: {PROGRAM} {task.typed} --hosts a,b"
                raise invoke.Exit(message, USAGE)
            # With --debug, botocore would print its signed requests.
            logging.getLogger().setLevel(logging.WARNING)
            RUNNING.tasks, RUNNING.dry = tasks, c.config.run.dry
            try:
                task(**texts)
            except Exit as end:
                raise invoke.Exit(end.message, end.code) from None

        options = sorted(
            task.options(), key=lambda option: not option.required
        )  # as Python wants it
        body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_parameter("c"), *(_parameter(parameter(o), _default(o)) for o in options)]
        )
        body.__doc__ = task.about
        self.of_railhead = task
        super().__init__(
            body,
            name=task.name,
            positional=[parameter(option) for option in options if option.rule.positional],
            iterable=[parameter(option) for option in options if option.repeats],
            help={option.flag: help_text(option) for option in options},
            auto_shortflags=False,
        )


class ClusterExecutor(Executor):  # type: ignore[misc]
    """Runs our tasks once for all hosts of Fabric's `--hosts`; fabric.yaml names it."""

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[invoke.Call]:
        """One call for each of our tasks, with the hosts as its argument; others as Fabric does."""
        expanded: list[invoke.Call] = []
        for entry in calls:
            call = invoke.Call(entry) if isinstance(entry, invoke.Task) else entry
            ours, hosts = isinstance(call.task, FabricTask), self.core[0].args.hosts.value
            if ours and self.core.remainder:  # Fabric would run it, and accept any host key
                raise invoke.Exit("our tasks take nothing after --", USAGE)
            if ours and hosts:
                call.kwargs = {**call.kwargs, "hosts": hosts}
            expanded += [call] if ours else super().expand_calls([entry], apply_hosts)
        return expanded


def collection(tasks: Mapping[str, Task]) -> invoke.Collection:
    """The tasks as a collection of Invoke."""
    ours = invoke.Collection()
    for task in tasks.values():
        ours.add_task(FabricTask(task, tasks))
    return ours


def _parameter(name: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def _default(option: Option) -> Any:
    """The default that Invoke sees: the value's type is decided by the group."""
    if option.required:
        return inspect.Parameter.empty
    return False if option.kind == "flag" else None
