"""In Python the next command of an error is a method, where the interface has one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from railhead.documents.options.hosts import CommandOptions
from railhead.documents.options.option import Option, options_in
from railhead.documents.options.runs import (
    EndingOptions,
    EvaluateOptions,
    FetchOptions,
    ProgramOptions,
    ScaleOptions,
    StartOptions,
    SweepOptions,
)
from railhead.documents.options.serving import DeployOptions

from ..console.notebook import in_notebook
from ..errors import Command, Hint, RailheadError

T = TypeVar("T")
# Each task that is a method: where it is called, and the groups with its options.
OF_A_CLUSTER: Mapping[str, tuple[type[Any], ...]] = {
    "train": (ProgramOptions, EndingOptions, StartOptions),
    "sweep": (SweepOptions, ProgramOptions),
    "scale": (ScaleOptions, ProgramOptions),
    "teardown": (),
    "status": (),
    "stop": (),
    "exec": (CommandOptions,),
}
OF_A_RUN: Mapping[str, tuple[str, tuple[type[Any], ...]]] = {
    "attach": ("wait", ()),
    "fetch": ("fetch", (FetchOptions,)),
    "logs": ("logs", ()),
    "status": ("status", ()),
    "cancel": ("cancel", ()),
    "report": ("report", ()),
    "evaluate": ("evaluate", (EvaluateOptions, ProgramOptions)),
    "deploy": ("deploy", (DeployOptions,)),
}
WRAPPED = ("__init__", "__post_init__", "__enter__", "__exit__")


def in_python(command: Command) -> str:
    """A command of `fab` as the call that does the same; where there is none the command, in a
    notebook as a line that runs there."""
    return _in_python(command) or f"{'!' if in_notebook() else ''}{command}"


def _in_python(command: Command) -> str:
    """The call; "" where there is none."""
    options = dict(command.options)
    task, values = command.task, [str(value) for value in command.values]
    if task == "runs":
        return "railhead.runs()"
    if task == "undeploy" and values:
        return f"railhead.Endpoint({values[0]!r}).delete()"
    if task in OF_A_CLUSTER and not (task in OF_A_RUN and "run" in options):
        hosts, stack = options.pop("hosts", None), options.pop("stack", None)
        cluster = f"railhead.Cluster({hosts!r})" if hosts else "cluster"
        if stack:
            cluster = f"railhead.Cluster.from_stack({stack!r})"
        return _call(options, f"{cluster}.{task}", OF_A_CLUSTER[task])
    if task in OF_A_RUN:
        run = options.pop("run", None) or (values[0] if values else None)
        method, groups = OF_A_RUN[task]
        about = f"railhead.Run({str(run)!r})" if run else "run"
        return _call(options, f"{about}.{method}", groups)
    return ""


def _call(options: Mapping[str, object], call: str, groups: tuple[type[Any], ...]) -> str:
    """The call with the options as arguments; "" if one of them is not an argument."""
    known = {o.flag.replace("-", "_"): o for group in groups[::-1] for o in options_in(group)}
    typed = {n: value for n, value in options.items() if value not in (None, False, "")}
    if not {*typed} <= {*known}:
        return ""
    values = [f"{known[name].name}={_value(known[name], value)}" for name, value in typed.items()]
    return f"{call}({', '.join(values)})"


def _value(option: Option, value: object) -> str:
    if option.kind == "flag":
        return repr(not option.default)
    separator = option.rule.separator
    if option.kind == "mapping":
        name, _, rest = str(value).partition("=")
        return repr({name: rest.split(separator) if separator else rest})
    if option.kind == "list":
        items = str(value).split(separator or ",")
        return f"[{', '.join(items if option.item is int else map(repr, items))}]"
    return str(value) if option.kind in ("int", "float") else repr(value)


def speaks_python(kind: type[T]) -> type[T]:
    """A class decorator: errors of its methods and properties name calls instead of commands."""
    for name in dir(kind):
        if name.startswith("_") and name not in WRAPPED:
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property) and member.fget:
            setattr(kind, name, property(translated(member.fget), doc=member.__doc__))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(translated(member.__func__)))
        elif inspect.isfunction(member):
            setattr(kind, name, translated(member))
    return kind


def translated(call: Callable[..., T]) -> Callable[..., T]:
    """The function, whose errors name calls instead of commands."""

    @wraps(call)
    def called(*args: Any, **kwargs: Any) -> T:
        try:
            return call(*args, **kwargs)
        except RailheadError as error:
            parts = error.next.parts
            error.next = Hint(*(in_python(p) if isinstance(p, Command) else p for p in parts))
            raise

    return called
