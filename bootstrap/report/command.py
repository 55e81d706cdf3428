"""The command that does a run again, from its record. Pure.

Values of --env are left out: a report is sent around.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from railhead.documents.options.option import options_in
from railhead.documents.options.runs import ProgramOptions

from ..runs.request import program_of

HIDDEN = "..."


def command(options: Mapping[str, Any], where: str, evaluates: str | None = None) -> str:
    """The `fab` command with these options on hosts `where` (--hosts or --stack); "" without
    recorded options."""
    if not options:
        return ""
    try:
        program = program_of(options)
    except TypeError:
        return ""
    task = ["fab", "evaluate", evaluates] if evaluates else ["fab", "train"]
    argv = [*task, *shlex.split(where), *_arguments(program)]
    return " ".join(shlex.quote(item) for item in argv)


def _arguments(program: ProgramOptions) -> Iterator[str]:
    """The options that have another value than their default."""
    for one in options_in(ProgramOptions):
        value = getattr(program, one.name)
        if value == one.default:
            continue
        if one.kind == "flag":
            yield f"--{one.flag}"
        for text in _texts(one.name, value):
            yield from [f"--{one.flag}={text}"] if text.startswith("-") else [f"--{one.flag}", text]


def _texts(name: str, value: Any) -> list[str]:
    """What is typed for a value, each text with the name of the option before it."""
    if isinstance(value, Mapping):
        hidden = name == "env"
        return [f"{key}={HIDDEN if hidden else _text(inner)}" for key, inner in value.items()]
    if isinstance(value, bool):
        return []
    return [_text(item) for item in value] if isinstance(value, tuple) else [_text(value)]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
