"""The commands that correct a stack's settings, as values: a message shows them with the stack's
name.

The reader of a message may have selected another stack since, and `fab up --stack` selects none.
Pure.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Pulumi:
    """A command of Pulumi about the stack, such as `config rm`, and its arguments."""

    command: str
    arguments: str = ""

    def of(self, stack: str) -> str:
        """The command as it is typed; without a stack for the selected one."""
        named = f"--stack {shlex.quote(stack)}" if stack else ""
        return " ".join(filter(None, ("pulumi", self.command, named, self.arguments)))


Part = Pulumi | str
UP = Pulumi("up")


def set_(key: str, value: object) -> Pulumi:
    """The command that sets a key."""
    return Pulumi("config set", f"{key} {value}")


def rm(key: str) -> Pulumi:
    """The command that removes a key, so that its default applies."""
    return Pulumi("config rm", key)


def typed(parts: tuple[Part, ...], stack: str = "") -> str:
    """Commands, and what is between them, in one line."""
    return " ".join(piece.of(stack) if isinstance(piece, Pulumi) else piece for piece in parts)
