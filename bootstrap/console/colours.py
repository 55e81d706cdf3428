"""Colours of lines on a terminal. The words of a line are the same without them.

Lines are colored after they were cleaned and cut: what a host sends never brings its own colours.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

BOLD, DIM, RED, GREEN = "1", "2", "31", "32"
OFF = ("", "0")  # values of a variable that switch nothing on
_BAR = re.compile(r"^\[(#+)(?=\.*\] )")
_RULES = (
    (re.compile(r"^\[[^\]\s]+(, [^\]\s]+)*\](?= |$)"), DIM),  # the hosts of a line
    (re.compile(r"^ *next: .*"), BOLD),
    (re.compile(r"^fab [\w-]+: "), RED),  # an error
    (re.compile(r"^run \S+ succeeded\b.*"), GREEN),
)


def is_terminal(stream: TextIO) -> bool:
    """Whether the cursor can be moved on `stream`."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def has_colours(stream: TextIO) -> bool:
    """Whether lines on `stream` are colored: on a terminal, unless NO_COLOR is set or CLICOLOR is
    0; with CLICOLOR_FORCE also elsewhere."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "") not in OFF:
        return True
    return os.environ.get("CLICOLOR") != "0" and is_terminal(stream)


def colored(text: str) -> str:
    """Lines with their colours."""
    return "\n".join(map(_line, text.split("\n")))


def board_line(name: str, rest: str, state: str) -> str:
    """A line of a board: its name, and the rest with its bar; `state` may be ready or failed."""
    rest = _BAR.sub(lambda bar: f"[{in_colour(bar[1], GREEN)}", rest)
    if state in ("ready", "failed"):
        rest = in_colour(rest, GREEN if state == "ready" else RED)
    return in_colour(name, BOLD) + rest


def in_colour(text: str, code: str) -> str:
    """A text in a colour, after which the terminal has its own again."""
    return f"\x1b[{code}m{text}\x1b[0m" if text else ""


def _line(line: str) -> str:
    for pattern, code in _RULES:
        if match := pattern.match(line):
            return in_colour(match[0], code) + line[match.end() :]
    return line
