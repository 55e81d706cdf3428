"""Reads the words of a command line, by argparse, from the declared options. Pure."""

from __future__ import annotations

import shlex
from argparse import Action, ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import Option, from_texts, options_in
from railhead.installation import PROGRAM

from ...errors import UsageError
from ..core_options import CoreOptions
from ..running import Texts
from ..task import TWO_WORDS, Task, parameter

CORE = options_in(CoreOptions)


class Wrong(Exception):
    """A command line that no task takes: the rule, the word that is unknown, and what to type where
    it is known."""

    def __init__(self, rule: str, *, unknown: str = "", next: str = "") -> None:
        super().__init__(rule)
        self.unknown, self.next = unknown, next


@dataclass(frozen=True)
class Line:
    """What a command line says."""

    task: Task | None
    texts: Texts
    core: CoreOptions


def read(
    named: str, words: Sequence[str], tasks: Mapping[str, Task], after: Sequence[str] = ()
) -> Line:
    """What a command line says.

    Args:
        named: the task's name; empty for none. words: the others before `--`. after: those after
            it, the command of `exec`.

    Raises:
        Wrong: there is no such task or option, or a value is missing or too many.
        UsageError: a core option has a wrong value.
    """
    task = tasks.get(named)
    if named and task is None:
        raise Wrong(f"{PROGRAM} has no task {named}", unknown=named)
    task_options = [*task.options()] if task else []
    flags = {option.flag: option for option in (*CORE, *task_options) if not option.rule.positional}
    name = f"{PROGRAM} {task.typed}" if task else PROGRAM
    values, rest = _parser(name, flags).parse_known_args(_with_values(words, flags), Namespace())
    texts = {parameter(option): getattr(values, parameter(option), None) for option in task_options}
    texts |= dict(_without_names(name, rest, texts, task))
    if after and "cmd" in texts:
        texts["cmd"] = after[0] if len(after) == 1 else shlex.join(after)
    core = {option.name: getattr(values, parameter(option)) for option in CORE}
    if task and core["hosts"] is not None and "hosts" not in texts:
        raise UsageError(f"{PROGRAM} {task.typed} takes no hosts")
    return Line(task, texts, from_texts(CoreOptions, core, UsageError))


def with_name(words: Sequence[str], tasks: Mapping[str, Task]) -> tuple[str, list[str]]:
    """The name of the task, `data-push` of `data push`, empty where none is named; and the other
    words.

    Raises:
        Wrong: the second word of such a name is missing or unknown, or an option before it.
    """
    known = {flag: option for option in CORE for flag in flags_of(option)}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if (option := known.get(flag := words[index].partition("=")[0])) is None:
            raise Wrong(f"{PROGRAM} has no option {flag}", unknown=flag)
        index += 1 if option.kind == "flag" or "=" in words[index] else 2
    first, *rest = words[index:] or [""]
    if first not in TWO_WORDS:
        return first, [*words[:index], *rest]
    choices = [name.partition("-")[2] for name in tasks if name.startswith(f"{first}-")]
    second = rest[0] if rest else ""
    if second not in choices:
        got = f", not {second!r}" if second else ""
        *others, last = choices
        hint = f"   # or: {PROGRAM} ".join(f"--help {first} {choice}" for choice in choices)
        rule = f"{PROGRAM} {first} takes {', '.join(others)} or {last}{got}"
        raise Wrong(rule, next=hint)
    return f"{first}-{second}", [*words[:index], *rest[1:]]


def flags_of(option: Option) -> list[str]:
    """How an option is typed, the short form first."""
    return [*([f"-{option.rule.short}"] if option.rule.short else []), f"--{option.flag}"]


def takes_value(word: str, after: str, task: Task | None) -> bool:
    """Whether a word is a flag that takes the word after it as its value."""
    for option in (*(task.options() if task else ()), *CORE):
        if not option.rule.positional and word in flags_of(option):
            return option.kind != "flag" and (option.rule.bare is None or after.isdigit())
    return False


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Wrong(f"{self.prog}: {message}")


class _Once(Action):
    """The value of an option that has one value."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) not in (None, value):
            parser.error(f"{flag} is given twice, with different values")
        setattr(namespace, self.dest, value)


def _parser(name: str, options: Mapping[str, Option]) -> ArgumentParser:
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False)
    core = {option.flag: option.rule.short for option in CORE}
    short_forms = {option.rule.short for option in options.values() if option not in CORE}
    for flag, option in options.items():
        short = option.rule.short or core.get(flag, "")
        # -f and such are of the task, if it has them.
        hidden = option in CORE and short in short_forms
        flags = [*([f"-{short}"] if short and not hidden else []), f"--{flag}"]
        if option.kind == "flag":
            parser.add_argument(*flags, dest=parameter(option), action="store_true")
        elif option.repeats:
            parser.add_argument(*flags, dest=parameter(option), action="append", default=[])
        else:
            parser.add_argument(*flags, dest=parameter(option), action=_Once)
    return parser


def _with_values(words: Sequence[str], options: Mapping[str, Option]) -> Iterator[str]:
    """The words with `--args --lr` as `--args=--lr`, which argparse takes for two options, and
    `--sagemaker train.py` as `--sagemaker=2 train.py`."""
    known = {flag for option in options.values() for flag in flags_of(option)}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        after = rest[0] if rest else ""
        option = options.get(word.removeprefix("--")) if word.startswith("--") else None
        if option is None:
            yield word
        elif option.rule.bare is not None and not after.isdigit():
            yield f"{word}={option.rule.bare}"
        elif option.kind != "flag" and after[:1] == "-" and after not in known:
            yield f"{word}={rest.popleft()}"
        else:
            yield word


def _without_names(
    name: str, rest: Sequence[str], texts: Texts, task: Task | None
) -> Iterator[tuple[str, str]]:
    """The values that were typed without the name of an option, by their parameters."""
    positional = [option for option in task.options() if option.rule.positional] if task else []
    names = task.first if task else ()
    first = [name for name in names if not texts[name.replace("-", "_")]]
    for word in rest:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            raise Wrong(f"{name} has no option {flag}", unknown=flag)
        if positional:
            yield parameter(positional.pop(0)), word
        elif first:
            yield _meant(word, first).replace("-", "_"), word
            first = []
        else:
            raise Wrong(f"{name} does not take {word}", unknown=word)
    if positional:
        raise Wrong(f"{name} needs {' and '.join(option.name.upper() for option in positional)}")


def _meant(word: str, first: Sequence[str]) -> str:
    """The option whose value a word is: of a script or a job, what it looks like."""
    is_script = word.endswith(".py") or "/" in word
    return next((name for name in first if (name == "script") == is_script), first[0])
