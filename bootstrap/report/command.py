"""The command that repeats a run, from its record. Pure.

It omits the values of --env, because reports may be shared.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from railhead.documents.options.option import options_in, typed_texts
from railhead.installation import PROGRAM

from ..runs.request import program_of

HIDDEN = "..."


def command(
    options: Mapping[str, Any], where: str, evaluates: str | None = None, counts: str = ""
) -> str:
    """The `fab` command with these options on hosts `where` (--hosts or --stack): train, evaluate
    or, with the numbers of hosts, scale; "" without recorded options."""
    if not options:
        return ""
    try:
        program = program_of(options)
    except TypeError:
        return ""
    task = ["evaluate", evaluates] if evaluates else ["train"]
    return typed(["scale", "--counts", counts] if counts else task, where, program)


def typed(task: Sequence[str], where: str, *groups: Any) -> str:
    """A command of `fab` with the options of groups whose value is not their default."""
    argv = [PROGRAM, *task, *shlex.split(where), *chain(*map(_arguments, groups))]
    return " ".join(shlex.quote(item) for item in argv)


def _arguments(group: Any) -> Iterator[str]:
    for option in options_in(type(group)):
        flag, value = f"--{option.flag}", getattr(group, option.name)
        if value == option.default:
            continue
        if option.name == "env":
            value = dict.fromkeys(value, HIDDEN)
        if option.kind == "mapping" and option.rule.separator:
            value = {name: option.rule.separator.join(inner) for name, inner in value.items()}
        if option.kind == "flag":
            yield flag
        for text in typed_texts(value):
            yield from [f"{flag}={text}"] if text.startswith("-") else [flag, text]
