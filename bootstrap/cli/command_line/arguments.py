"""How a command line is read before Invoke reads it: tasks with a name of two words, and values
that need no option's name. Invoke has no argument that is positional and may be left out. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from invoke import Exit, Task

from railhead.documents.options.option import Option
from railhead.installation import PROGRAM

from ...errors import USAGE, Command
from ..executor import TWO_WORDS
from ..task import GroupTask


def join_task_names(words: Sequence[str], tasks: Iterable[str]) -> list[str]:
    """`data push ...` as `data-push ...`; Exit if the second word is missing or unknown."""
    first = words[0] if words else ""
    if first not in TWO_WORDS:
        return [*words]
    choices = [name.partition("-")[2] for name in tasks if name.startswith(f"{first}-")]
    if len(words) > 1 and words[1] in choices:
        return [f"{first}-{words[1]}", *words[2:]]
    got = f", not {words[1]!r}" if len(words) > 1 else ""
    hint = "   # or: ".join(f"{PROGRAM} --help {first} {choice}" for choice in choices)
    wanted = f"{', '.join(choices[:-1])} or {choices[-1]}"
    raise Exit(f"{PROGRAM} {first} takes {wanted}{got}\n  next: {hint}", code=USAGE)


def name_first_arguments(
    words: Sequence[str],
    tasks: Mapping[str, Task[Any]],
    core: Container[str] = (),
    is_job: Callable[[str], bool] = lambda name: False,
) -> list[str]:
    """`logs -f RUN` as `logs -f --run RUN`, for each task that is named.

    Args:
        tasks: by their names. core: the flags of Fabric and Invoke that take a value.
        is_job: whether the job file has this job.

    Raises:
        Exit: a word may be a job of the task before it, or the next task.
    """
    named: list[str] = []
    task, positional = "", 0
    first: tuple[str, ...] = ()
    rest = deque(words)
    while rest:
        word = rest.popleft()
        after = rest[0] if rest else ""
        if word.startswith("-"):
            first = tuple(flag for flag in first if f"--{flag}" != word.partition("=")[0])
            if takes_value(word, after, tasks.get(task), core):
                named += [word, *([rest.popleft()] if rest else [])]
            else:
                named.append(_with_bare_value(word, tasks.get(task)))
        elif positional:
            named.append(word)
            positional -= 1
        elif word in tasks and not (word == task and first):
            if "job" in first and is_job(word):
                what = f"{PROGRAM} {task} {word}: {word} is a job, and a task too"
                raise Exit(f"{what}\n  next: {Command(task, job=word)}", code=USAGE)
            named.append(word)
            task, first = word, getattr(tasks[word], "first", ())
            positional = len(list(tasks[word].positional))
        elif first:
            named += [f"--{_meant(word, first)}", word]
            first = ()
        else:
            named.append(word)
    return named


def takes_value(word: str, after: str, task: Task[Any] | None, core: Container[str]) -> bool:
    """Whether a word is a flag that takes the word after it as its value: a flag of the task,
    otherwise of Fabric and Invoke."""
    if one := _option(word, task):
        return one.kind != "flag" and (one.rule.bare is None or after.isdigit())
    return word in core


def _option(word: str, task: Task[Any] | None) -> Option | None:
    """The option of the task whose flag a word is."""
    for one in task.options() if isinstance(task, GroupTask) else ():
        if not one.rule.positional and word in (f"--{one.flag}", f"-{one.rule.short}"):
            return one
    return None


def _with_bare_value(word: str, task: Task[Any] | None) -> str:
    """A flag with the value that it has if none is typed."""
    one = _option(word, task)
    return word if one is None or one.rule.bare is None else f"{word}={one.rule.bare}"


def _meant(word: str, first: Sequence[str]) -> str:
    """The option whose value a word is: of a script or a job, what it looks like."""
    is_script = word.endswith(".py") or "/" in word
    return next((one for one in first if (one == "script") == is_script), first[0])
