"""Completes the commands of an error's hint with the hosts of the failed command. Pure.

A hint is written where an error is raised, which knows the rule and not the command line. Typed
as it is printed, `fab stop` would stop the selected stack and not the one of `--stack`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from invoke import Task

TARGETS = ("hosts", "stack")
BY_RECORD = ("undeploy", "predict")  # an endpoint is found by its name; the hint says if it is not
NAMED = re.compile(r"--(hosts|stack|run)\b")
# A command and its rest: up to the next command, a comment or the end of the sentence.
COMMAND = re.compile(
    r"\bfab (?P<task>data (?:push|list|shard)|[a-z]+(?:-[a-z]+)*)"
    r"(?P<rest>(?:(?! fab | && )[^#;,\n])*)"
)
VALUES = re.compile(r"(?: [^\s#-]\S*)+")


def with_target(hint: str, given: Mapping[str, Any], tasks: Mapping[str, Task[Any]]) -> str:
    """The hint, with `--hosts` or `--stack` as given in each `fab TASK` that names no hosts itself.

    Args:
        hint: the next command, or several, with text between and after them.
        given: the values of the task's options by name, as they were typed; for a command that
            names only a run, with the hosts or the stack of the run.
        tasks: all tasks by their names on the command line.
    """
    return COMMAND.sub(lambda found: _complete(found, given, tasks), hint)


def _complete(
    found: re.Match[str], given: Mapping[str, Any], tasks: Mapping[str, Task[Any]]
) -> str:
    name, rest = found["task"].replace(" ", "-"), found["rest"]
    if name not in tasks or name in BY_RECORD or NAMED.search(rest):
        return found[0]
    arguments = tasks[name].get_arguments()
    typed = [
        f" --{option} {shlex.quote(given[option])}"
        for option in TARGETS
        if given.get(option) and option in {argument.name for argument in arguments}
    ]
    # What is positional stays first; everything else may be text: "fab teardown ends it".
    values = VALUES.match(rest) if any(argument.positional for argument in arguments) else None
    first = values[0] if values else ""
    return f"fab {found['task']}{first}{''.join(typed)}{rest[len(first) :]}"
