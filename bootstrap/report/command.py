"""The command that does a run again, from its record. Pure.

Values of --env are left out: a report is sent around.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from bootstrap.runs.earlier_run import FLAGS

HIDDEN = "..."


def command(given: Mapping[str, Any], where: str, evaluates: str = "") -> str:
    """The `fab` command with these options on hosts `where` (--hosts or --stack); "" if the record
    has no options."""
    options = given.get("options")
    if not isinstance(options, dict):
        return ""
    task = ["fab", "evaluate", evaluates] if evaluates else ["fab", "train"]
    argv = [*task, *shlex.split(where), *_arguments(options)]
    return " ".join(shlex.quote(item) for item in argv)


def _arguments(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        flag = f"--{FLAGS.get(name, name.replace('_', '-'))}"
        if value is True:
            yield flag
        elif isinstance(value, str):
            yield f"{flag}={value}" if value.startswith("-") else flag
            yield from () if value.startswith("-") else (value,)
        elif isinstance(value, list):
            for item in map(str, value):
                yield flag
                yield f"{item.partition('=')[0]}={HIDDEN}" if name == "env" else item
