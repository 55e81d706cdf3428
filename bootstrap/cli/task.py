"""Makes a task of `fab` from a function: its options are the groups that the function takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from railhead.documents.lazy import dataclass
from railhead.documents.options.jobs import JobOptions, merged
from railhead.documents.options.option import Only, Option, chosen, described, from_texts, plain
from railhead.installation import PROGRAM

from ..console import output
from ..errors import USAGE, UsageError
from .running import RUNNING, Exit, Texts, reported

if TYPE_CHECKING:
    from ..project.job_file import Job

# The groups of `fab --list`, in their order.
GROUPS = TRAIN, RESULTS, SERVE, HOSTS, CLOUD = ("Train", "Results", "Serve", "Hosts", "Cloud")
TWO_WORDS = ("data",)  # the first word of tasks whose name has two, such as data push


def page_of(group: str) -> str:
    """The page of docs that describes the tasks of a group."""
    return f"tasks-{group.lower()}.md"


@dataclass(frozen=True)
class Part:
    """A group of options that a task takes, by the name of its parameter."""

    parameter: str
    group: type[Any]
    selection: Only | None

    @property
    def options(self) -> list[Option]:
        """Those that the task has."""
        return list(chosen(self.group, self.selection))


class Task:
    """A command. Its options are the groups that its function takes; they are read when somebody
    asks: a command line names one task of many.

    `name`: such as `data-push`, which is typed `data push`. `group`: one of GROUPS. `first`: the
    options of which one may be typed as the first argument, without its name. `dry`: with --dry it
    prints its plan and changes nothing. `quiet`: with --quiet it prints only its result; all that
    other tasks print is their result.
    """

    def __init__(
        self,
        function: Callable[..., None],
        group: str,
        first: tuple[str, ...],
        *,
        name: str | None,
        dry: bool,
        quiet: bool,
    ) -> None:
        self.name = name or function.__name__.rstrip("_").replace("_", "-")
        self.function, self.group, self.first = function, group, first
        self.dry, self.quiet = dry, quiet

    @property
    def typed(self) -> str:
        """The name as it is typed."""
        return typed(self.name)

    @property
    def about(self) -> str:
        """What the task does."""
        from inspect import cleandoc  # imported late: only help needs it

        return cleandoc(self.function.__doc__ or "")

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The groups of options."""
        return tuple(_parts(self.function))

    def options(self) -> Iterator[Option]:
        """All options, in the order of the groups."""
        return (option for part in self.parts for option in part.options)

    def __call__(self, **texts: Any) -> None:
        """Run with what was typed, by the options' parameters.

        Raises:
            Exit: it failed, or --dry would not keep it from its changes.
        """
        if RUNNING.dry and not self.dry:
            rule = "--dry is for tasks that have a plan, bootstrap and train"
            message = f"{PROGRAM}: {rule}: {PROGRAM} {self.typed} has none"
            raise Exit(f"{message}\n  next: {PROGRAM} --help {self.typed}", USAGE)
        silent = output.quiet() if self.quiet and RUNNING.quiet else nullcontext()
        with reported(self.typed, texts), silent:
            self.function(**values_of(self.parts, texts))


def task(
    group: str, *first: str, name: str | None = None, dry: bool = False, quiet: bool = False
) -> Callable[[Callable[..., None]], Task]:
    """Makes a task of a function. Each parameter of the function is a group of options, all of them
    or, with `Annotated[Group, only(...)]`, some. The others as in Task."""
    return lambda body: Task(body, group, first, name=name, dry=dry, quiet=quiet)


def typed(name: str) -> str:
    """A task's name as it is typed: of `data-push` two words."""
    first, _, second = name.partition("-")
    return f"{first} {second}" if first in TWO_WORDS and second else name


def parameter(option: Option) -> str:
    """The name of an option as a parameter of Python: that of its flag, with underscores."""
    return option.flag.replace("-", "_")


def help_text(option: Option) -> str:
    """What an option means, for a terminal."""
    return re.sub(r"\bfab\b", PROGRAM, plain(described(option)))


def _parts(body: Callable[..., None]) -> Iterator[Part]:
    for name, kind in get_type_hints(body, include_extras=True).items():
        selection = None
        if name == "return":
            continue
        if get_origin(kind) is Annotated:
            kind, selection = get_args(kind)
        yield Part(name, kind, selection)


def values_of(parts: Sequence[Part], texts: Texts) -> dict[str, Any]:
    """The groups of a task by parameter, from what was typed and the job that it names.

    Raises:
        UsageError: a value does not fit its option.
    """
    job = _job(parts, texts)
    return {part.parameter: _read(part, texts, job) for part in parts}


def _job(parts: Sequence[Part], texts: Texts) -> Job | None:
    """The job that the command line names, of a task that takes one."""
    typed = next((_read(part, texts, None) for part in parts if part.group is JobOptions), None)
    if typed is None or not typed.are_typed:
        return None
    from ..project import job_file  # imported late: most commands name no job

    return job_file.chosen(typed)


def _read(part: Part, texts: Texts, job: Job | None) -> Any:
    typed = {option.name: texts.get(parameter(option)) for option in part.options}
    if job is None or part.group is JobOptions:
        return from_texts(part.group, typed, UsageError)
    return merged(part.group, part.options, typed, job.table, UsageError, job.error)
