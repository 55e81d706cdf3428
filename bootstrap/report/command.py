"""The command that repeats a run, from its record. Pure.

It omits the values of --env, because reports may be shared.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from railhead.documents.installation import PROGRAM
from railhead.documents.options.option import options_in, typed_texts
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
    task = [PROGRAM, "evaluate", evaluates] if evaluates else [PROGRAM, "train"]
    argv = [*task, *shlex.split(where), *_arguments(program)]
    return " ".join(shlex.quote(item) for item in argv)


def _arguments(program: ProgramOptions) -> Iterator[str]:
    """The options whose value is not their default."""
    shown = replace(program, env=dict.fromkeys(program.env, HIDDEN))
    for one in options_in(ProgramOptions):
        value = getattr(shown, one.name)
        if value == one.default:
            continue
        if one.kind == "flag":
            yield f"--{one.flag}"
        for text in typed_texts(value):
            yield from [f"--{one.flag}={text}"] if text.startswith("-") else [f"--{one.flag}", text]
