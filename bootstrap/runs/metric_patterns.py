"""`--metric NAME=REGEX`: numbers in the output of a script that become records. Pure."""

from __future__ import annotations

import re

from bootstrap.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")
RULE = "--metric NAME=REGEX, with one group around the number: loss='loss: ([0-9.]+)'"


def read_metric(text: str) -> tuple[str, str]:
    """The name and the pattern of one `--metric`.

    Raises:
        UsageError: it has no name, the pattern is not a regular expression, or it has not exactly
            one group.
    """
    name, equals, pattern = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"--metric {text!r}: {RULE}")
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--metric {name}: {pattern!r} is not a regular expression: {error}"
        ) from None
    if groups != 1:
        raise UsageError(f"--metric {name}: {pattern!r} has {groups} groups: {RULE}")
    return name, pattern
