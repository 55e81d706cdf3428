"""Makes a task of `fab` from a function: its options are the groups that the function takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from fabric import Connection
from fabric import main as fabrics
from invoke import Context, Exit, Task

from railhead.documents.lazy import dataclass
from railhead.documents.options.jobs import JobOptions, merged
from railhead.documents.options.option import Only, Option, chosen, from_texts
from railhead.installation import FABRICS

from ..console import output
from ..errors import USAGE, UsageError
from ..runs.strategies import DEFAULT_LAUNCHER, LAUNCHERS, names
from .executor import RUNNING, report_errors

if TYPE_CHECKING:
    from ..project.job_file import Job

# The groups of `fab --list`, in their order.
GROUPS = TRAIN, RESULTS, SERVE, HOSTS, CLOUD = ("Train", "Results", "Serve", "Hosts", "Cloud")
REPEATABLE = ()  # the default of an option that may be given several times
# What stands for these words in a help text.
CHOICES = {
    "launchers": " or ".join(LAUNCHERS),
    "launcher": DEFAULT_LAUNCHER,
    "strategies": ", ".join(names()),
}


def page_of(group: str) -> str:
    """The page of docs that describes the tasks of a group."""
    return f"tasks-{group.lower()}.md"


@dataclass(frozen=True)
class Part:
    """A group of options that a task takes, by the name of its parameter."""

    parameter: str
    group: type[Any]
    which: Only | None

    @property
    def options(self) -> list[Option]:
        """Those that the task has."""
        return list(chosen(self.group, self.which))


class GroupTask(Task[Any]):
    """An Invoke task whose options are the groups that its function takes. They are read when
    somebody asks: a command line names one task of many.

    `group`: one of GROUPS. `first`: the options of which one may be typed as the first argument,
    without its name. `dry`: with the core option --dry it prints its plan and changes nothing.
    `quiet`: with --quiet it prints only its result; all that other tasks print is their result.
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
        @functools.wraps(function)
        def run(c: Context, **texts: Any) -> None:
            if isinstance(c, Connection) or hasattr(fabrics.program, "core"):
                raise Exit(FABRICS, USAGE)
            with output.quiet() if quiet and RUNNING.quiet else nullcontext():
                function(c, **values_of(self.parts, texts))

        super().__init__(report_errors(run), name=name, positional=(), auto_shortflags=False)
        self.function, self.group, self.first = function, group, first
        self.dry, self.quiet = dry, quiet
        for own in ("positional", "iterable", "help"):  # which it has set
            del self.__dict__[own]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The groups of options."""
        return tuple(_parts(self.function))

    @cached_property
    def positional(self) -> list[str]:  # type: ignore[override]
        return [parameter(one) for one in self.options() if one.rule.positional]

    @cached_property
    def iterable(self) -> list[str]:  # type: ignore[override]
        return [parameter(one) for one in self.options() if _repeats(one)]

    @cached_property
    def help(self) -> dict[str, str]:  # type: ignore[override]
        return {one.flag: help_text(one) for one in self.options()}

    def argspec(self, body: Callable[..., None]) -> inspect.Signature:
        return _signature([*self.options()])

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        if default == REPEATABLE:  # Invoke would take its type for that of one value
            default = None
        arguments = super().arg_opts(name, default, taken_names)
        arguments["names"] += [
            one.rule.short for one in self.options() if one.rule.short and parameter(one) == name
        ]
        return arguments

    def options(self) -> Iterator[Option]:
        """All options, in the order of the groups."""
        return (one for part in self.parts for one in part.options)


def task(
    group: str, *first: str, name: str | None = None, dry: bool = False, quiet: bool = False
) -> Callable[[Callable[..., None]], Task[Any]]:
    """An Invoke task. Each parameter of its function after the context is a group of options, all
    of them or, with `Annotated[Group, only(...)]`, some. The others as in GroupTask."""
    return lambda body: GroupTask(body, group, first, name=name, dry=dry, quiet=quiet)


def parameter(one: Option) -> str:
    """The name of an option as a parameter of Python: that of its flag, with underscores."""
    return one.flag.replace("-", "_")


def help_text(one: Option) -> str:
    """The line of `fab --help TASK`, with the default where there is one."""
    text = one.rule.help
    for word, choices in CHOICES.items():
        text = text.replace(f"{{{word}}}", choices)
    shown = isinstance(one.default, (str, int, float)) and not isinstance(one.default, bool)
    default = one.default if isinstance(one.default, str) or not shown else f"{one.default:g}"
    return f"{text}; default: {default}" if shown else text


def _parts(body: Callable[..., None]) -> Iterator[Part]:
    hints = get_type_hints(body, include_extras=True)
    for name in list(inspect.signature(body).parameters)[1:]:
        kind, which = hints[name], None
        if get_origin(kind) is Annotated:
            kind, which = get_args(kind)
        yield Part(name, kind, which)


def _signature(options: list[Option]) -> inspect.Signature:
    """The parameters of a task, without its context."""
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    # What has no default comes first, as Python wants it.
    for one in sorted(options, key=lambda one: not one.required):
        default = inspect.Parameter.empty if one.required else _default(one)
        parameters.append(inspect.Parameter(parameter(one), keyword, default=default))
    return inspect.Signature(parameters)


def _default(one: Option) -> Any:
    """The default that Invoke sees: the value's type is decided by the group."""
    if one.kind == "flag":
        return False
    return REPEATABLE if _repeats(one) else None


def _repeats(one: Option) -> bool:
    """Whether the option may be given several times."""
    return one.kind == "mapping" or (one.kind == "list" and not one.rule.separator)


def values_of(parts: Sequence[Part], texts: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a task by parameter, from what was typed and the job that it names.

    Raises:
        UsageError: a value does not fit its option.
    """
    job = _job(parts, texts)
    return {part.parameter: _read(part, texts, job) for part in parts}


def _job(parts: Sequence[Part], texts: Mapping[str, Any]) -> Job | None:
    """The job that the command line names, of a task that takes one."""
    typed = next((_read(one, texts, None) for one in parts if one.group is JobOptions), None)
    if typed is None or not typed.are_typed:
        return None
    from ..project import job_file  # imported late: most commands name no job

    return job_file.chosen(typed)


def _read(part: Part, texts: Mapping[str, Any], job: Job | None) -> Any:
    typed = {one.name: texts.get(parameter(one)) for one in part.options}
    if job is None or part.group is JobOptions:
        return from_texts(part.group, typed, UsageError)
    return merged(part.group, part.options, typed, job.table, UsageError, job.error)
