"""What to type after an error, as a value: a command of `fab`, or commands with text between. Pure.

Where an error is raised the rule is known and not the command line: without the hosts that were
typed, `fab stop` would stop the selected stack and not the one of `--stack`. So the hosts are added
when the error is printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True, init=False)
class Command:
    """A command of `fab`: `Command("fetch", run="r1")` is `fab fetch --run r1`.

    Args:
        task: as it is typed, such as `data push`. values: those that stand without an option.
        options: underscores stand for dashes; True is a switch; None, False and "" are left out.
    """

    task: str
    values: tuple[object, ...]
    options: Mapping[str, object]

    def __init__(self, task: str, *values: object, **options: object) -> None:
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "options", options)

    def __str__(self) -> str:
        values = [shlex.quote(str(value)) for value in self.values]
        return " ".join(["fab", self.task, *values]) + options(self.options)

    def plus(self, **options: object) -> Command:
        """The same command with more options."""
        return Command(self.task, *self.values, **{**self.options, **options})

    def at(self, target: Mapping[str, str]) -> Command:
        """The same command on the hosts that these options name, such as {"stack": "gpu"}; as it is
        if it names its hosts or its run itself."""
        if any(map(self.options.get, ("hosts", "stack", "run"))):
            return self
        return Command(self.task, *self.values, **{**target, **self.options})


@dataclass(frozen=True, init=False)
class Hint:
    """Commands of `fab` and the text between them, one after the other."""

    parts: tuple[str | Command, ...]

    def __init__(self, *parts: Hint | Command | str) -> None:
        each = (part.parts if isinstance(part, Hint) else (part,) for part in parts)
        object.__setattr__(self, "parts", tuple(chain.from_iterable(each)))

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def completed(self, complete: Callable[[Command], Command]) -> Hint:
        """The same with each command as `complete` returns it."""
        return Hint(*(p if isinstance(p, str) else complete(p) for p in self.parts))


def options(values: Mapping[str, object]) -> str:
    """Options as they are typed after a command, with a space before each."""
    given = {n: v for n, v in values.items() if v is not False and v not in (None, "")}
    return "".join(f" {_option(name, value)}" for name, value in given.items())


def _option(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return flag
    text = shlex.quote(str(value))
    return f"{flag}={text}" if str(value).startswith("-") else f"{flag} {text}"
