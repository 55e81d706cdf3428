"""Jobs: options of `fab train` in a file, under their names on the command line.

Pure. The command line comes first, then the file, then the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_origin

from railhead.documents.lazy import dataclass, replace
from railhead.documents.rule import nearest, shortened

from .hosts import ReadyOptions, TargetOptions
from .option import (
    Error,
    Only,
    Option,
    chosen,
    described,
    from_texts,
    from_values,
    only,
    option,
    options_in,
    plain,
)
from .runs import EndingOptions, ProgramOptions, StartOptions

T = TypeVar("T")
Table = Mapping[str, Any]
PLACES = ("hosts", "stack")  # a typed one replaces both
OF_SETTINGS = ("off", "on")  # what false and true are in a setting of the training


@cache
def job_groups() -> Sequence[tuple[type[Any], Only | None]]:
    """What a job may have: the options of `fab train`, except which run it continues."""
    start = (opt.name for opt in options_in(StartOptions) if opt.name != "resume")
    return (
        (TargetOptions, only("hosts", "stack", "slots", "start")),
        (ProgramOptions, None),
        (ReadyOptions, None),
        (EndingOptions, None),
        (StartOptions, only(*start)),
    )


@cache
def keys() -> Mapping[str, Option]:
    """The options of a job by key."""
    return {opt.flag: opt for group, selection in job_groups() for opt in chosen(group, selection)}


@dataclass(frozen=True)
class JobOptions:
    """Which job gives the options that are not typed."""

    job: str | None = option(
        None, "a job of the [job file](#job-file): its options apply unless you type them"
    )
    file: str | None = option(
        None, "the job file. Default: `railhead.toml` in the current folder", path=True
    )
    save: str | None = option(
        None,
        "add the options of this command to this job file, as the job `JOB` (default: "
        "`train`), and start nothing",
        path=True,
    )

    @property
    def are_typed(self) -> bool:
        """Whether any of these options is typed."""
        return (self.job, self.file, self.save) != (None, None, None)


def checked(table: Table, error: Error) -> Table:
    """The table of a job, with its values as those of the options.

    Raises:
        error: a key is not an option of train, or a value does not fit.
    """
    for key in table:
        if key not in keys():
            near = nearest(key.replace("_", "-"), keys())
            also = f"; did you mean {near}?" if near else ", which is not an option of train"
            raise error(f"unknown key {shortened(key)}{also}")
    return table_of(
        *(from_table(group, chosen(group, w), table, error) for group, w in job_groups())
    )


def from_table(group: type[T], options: Sequence[Option], table: Table, error: Error) -> T:
    """The group, with these options from a job."""
    values = {opt.name: _value(opt, table[opt.flag], error) for opt in options if opt.flag in table}
    return from_values(group, values, error)


def merged(
    group: type[T],
    options: Sequence[Option],
    texts: Table,
    table: Table,
    error: Error,
    of_file: Error,
) -> T:
    """The group with what was typed, otherwise what the job has. Mappings are merged entry by
    entry. `error` is for what was typed, `of_file` for the job."""
    typed = {name: text for name, text in texts.items() if text not in (None, False, (), [])}
    if any(typed.get(name) for name in PLACES):
        table = {key: value for key, value in table.items() if key not in PLACES}
    values, job = from_texts(group, typed, error), from_table(group, options, table, of_file)
    chosen_values = {name: _merged(getattr(job, name), getattr(values, name)) for name in typed}
    return replace(job, **chosen_values)  # type: ignore[type-var]


def table_of(*groups: Any) -> Table:
    """The table of a job with these options: those that have no default value."""
    by_type = {type(group): group for group in groups}
    table = {}
    for kind, selection in job_groups():
        for opt in chosen(kind, selection) if kind in by_type else ():
            value = getattr(by_type[kind], opt.name)
            if value != opt.default:
                table[opt.flag] = True if opt.kind == "flag" else value
    return table


def values_of(table: Table, error: Error) -> Table:
    """The values of a job's options, by the names that they have in Python. Raises as `checked`."""
    return {
        opt.name: not opt.default if opt.kind == "flag" else value
        for flag, value in checked(table, error).items()
        for opt in [keys()[flag]]
    }


def schema() -> Table:
    """The JSON Schema of a job file, for editors."""
    job = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {**dict(_type_of(opt)), "description": plain(described(opt))}
            for key, opt in keys().items()
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Jobs of Railhead",
        "type": "object",
        "additionalProperties": job,
    }


def _value(opt: Option, value: Any, error: Error) -> Any:
    """A value of a job as a value of Python."""
    if opt.kind == "flag":
        if not isinstance(value, bool):
            raise error(f"{opt.flag}: {shortened(value)} is neither true nor false")
        return value is not opt.default
    if opt.kind == "mapping" and isinstance(value, Mapping):
        return {name: _item(opt, inner) for name, inner in value.items()}
    return value


def _item(opt: Option, value: Any) -> Any:
    """A value of a mapping; one value of a sweep's setting is not split."""
    off, on = OF_SETTINGS if opt.flag == "set" else ("false", "true")
    texts = [str(item) for item in value] if isinstance(value, list) else []
    text = (on if value else off) if isinstance(value, bool) else ",".join(texts) or value
    return [text] if get_origin(opt.item) is tuple else text


def _merged(job: Any, typed: Any) -> Any:
    return {**job, **typed} if isinstance(typed, Mapping) else typed


NUMBERS = {"int": "integer", "float": "number"}


def _type_of(opt: Option) -> Iterator[tuple[str, Any]]:
    """The rules of an option in JSON Schema."""
    scalar = {"type": ["string", "number", "boolean", "array"]}
    if opt.kind == "flag":
        yield "type", "boolean"
    elif opt.kind == "mapping":
        yield "type", "object"
        yield "additionalProperties", {"type": "number"} if opt.item is float else scalar
    elif opt.kind == "list":
        yield "type", ["array", "string"] if opt.rule.separator else "array"
        yield "items", {"type": "string"}
    elif opt.rule.bare is not None:
        yield "type", [NUMBERS[opt.kind], "boolean"]
    elif opt.kind in NUMBERS:
        yield "type", [NUMBERS[opt.kind], "string"] if opt.rule.unit else NUMBERS[opt.kind]
    else:
        also = ["array", "object"] if opt.rule.whole_with else ["array"]
        yield "type", ["string", *also] if opt.rule.joined else "string"
    if opt.rule.choices:
        yield "enum", [*opt.rule.choices, *([] if opt.rule.bare is None else [True, False])]
    if opt.rule.at_least is not None and opt.kind in NUMBERS:
        yield "minimum", opt.rule.at_least
    if opt.rule.at_most is not None and opt.kind in NUMBERS:
        yield "maximum", opt.rule.at_most
