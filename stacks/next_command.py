"""The commands in the messages of a stack's program name the stack. Pure.

Who reads a message may have selected another stack since, and `fab up --stack` selects none.
"""

from __future__ import annotations

import re
import shlex

NEXT = "\n  next: "
WITHOUT_STACK = re.compile(r"\bpulumi (?:config (?:set|rm)|up)\b(?! --stack)")


def with_stack(command: str, stack: str) -> str:
    """The commands of Pulumi in a text with `--stack`, except those that have it."""
    return WITHOUT_STACK.sub(lambda match: f"{match[0]} --stack {shlex.quote(stack)}", command)


def naming(message: str, stack: str) -> str:
    """A message whose last line may be a command, with the stack in that line."""
    text, next_, command = message.partition(NEXT)
    return text + next_ + with_stack(command, stack)
