"""An option is a field of a frozen dataclass: its type, default, help and rules, in one place.

These declarations define the options of the `fab` tasks and their help, the arguments of the Python
interface, the tables of docs/tasks-*.md, and what `fab train --resume` reuses. `from_texts` reads
typed texts, `from_values` reads Python values; both return the same dataclass.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import re
import shlex
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from railhead.documents import rule, sagemaker
from railhead.documents.lazy import MISSING, dataclass, field, fields, replace
from railhead.documents.rule import Unfit, number_text, shortened

T = TypeVar("T")
Error = Callable[[str], Exception]
KEY = "option"  # of the metadata of a field
KINDS = {bool: "flag", str: "text", int: "int", float: "float"}
POINTER = re.compile(r"[:,;] \[[^]]*\]\([^)]*\)(?=[.;]|$)")  # a link at the end of a sentence
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Rule(rule.Rule):
    """What is declared for an option besides its name, type and default; its values fit the rule.

    Args:
        text: what the option does, in Markdown, without its bounds and a default that is a value.
        python: the line of the Python interface, if its values have another form.
        flag: the name on the command line, without dashes; default: the name of the field. A flag
            whose default is True is switched off: `stop` by `--no-stop`.
        form: the form of a mapping's item, such as NAME=NUMBER. each_once: no name twice.
        separator: separates a list, or a mapping's values, in one text such as 1,2,4.
        path: the value is a file or folder, relative to where the command was typed.
        joined: joins a Python list into one text: `,`, or ` ` for the arguments of a program.
        positional: on the command line the value is typed without the option's name.
        short: the letter of the short form, such as `-f`. was: the name in older run records.
        bare: the number of an option that is typed without one, or is True.
        whole_with: the option with which a mapping is joined as a JSON object, with all its types.
    """

    text: str = ""
    python: str = ""
    flag: str = ""
    form: str = "NAME=VALUE"
    each_once: bool = False
    separator: str = ""
    path: bool = False
    joined: str = ""
    positional: bool = False
    short: str = ""
    was: str = ""
    bare: int | None = None
    whole_with: str = ""


def option(default: Any = MISSING, text: str = "", **rules: Any) -> Any:
    """A field of a group of options; `text` and `rules` as in Rule."""
    metadata = {KEY: Rule(text=text, **rules)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Option:
    """An option of a group. `kind`: flag, text, int, float, list or mapping; `item`: the type of a
    list's or a mapping's values, otherwise the type of the option's value."""

    name: str
    kind: str
    item: Any
    default: Any
    rule: Rule

    @property
    def flag(self) -> str:
        """The option's name on the command line, without the two dashes."""
        return self.rule.flag or self.name.replace("_", "-")

    @property
    def required(self) -> bool:
        """Whether the option has no default."""
        return self.default is MISSING

    @property
    def repeats(self) -> bool:
        """Whether the option may be given several times."""
        return self.kind == "mapping" or (self.kind == "list" and not self.rule.separator)


def options_in(group: type[Any]) -> tuple[Option, ...]:
    """The options of a group, in their order."""
    return _cached_options(cast(Hashable, group))


@functools.cache
def _cached_options(group: Any) -> tuple[Option, ...]:
    hints = get_type_hints(group)
    return tuple(_option(f, hints[f.name]) for f in fields(group))


def _option(declared: Any, annotation: Any) -> Option:
    default = {} if declared.default_factory is not MISSING else declared.default
    kind = annotation
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        name, item = "list", args[0]
    elif origin is not None:
        name, item = "mapping", args[1]
    else:
        name, item = KINDS[kind], kind
    return Option(declared.name, name, item, default, replace(declared.metadata[KEY], kind=item))


def from_texts(group: type[T], texts: Mapping[str, Any], error: Error) -> T:
    """The group from what was typed.

    Args:
        texts: by the option's name: a text; for a list or a mapping, all its texts; for a flag,
            whether it was typed. Options that are missing keep their default.

    Raises:
        error: a text does not fit its option; the message has the option, the text and the rule.
    """
    return _made(group, texts, error, _typed)


def from_values(group: type[T], values: Mapping[str, Any], error: Error) -> T:
    """The group from Python values; a text is read as if it were typed. Raises as `from_texts`."""
    rules = {one.name: one.rule for one in options_in(group)}
    whole = {
        name: _object(value, error)
        for name, value in values.items()
        if isinstance(value, Mapping) and values.get(rules[name].whole_with)
    }
    return _made(group, {**values, **whole}, error, _valued)


def text_value(value: object, error: Error) -> str:
    """A value as a text without a NUL character, which no command line can have."""
    try:
        text = str(value)
    except ValueError:  # of an integer with thousands of digits
        raise error(f"{shortened(value)}: no option takes it") from None
    if "\0" in text:
        raise error(f"{shortened(text)}: a text without a NUL character")
    return text


def _made(group: type[T], values: Mapping[str, Any], error: Error, read: Any) -> T:
    known = {one.name: one for one in options_in(group)}
    read_values = {name: read(known[name], value, error) for name, value in values.items()}
    return group(**{name: value for name, value in read_values.items() if value is not None})


def _typed(one: Option, text: Any, error: Error) -> Any:
    """The value of what was typed; None for the default."""
    if one.kind == "flag":
        return not one.default if text else None
    if text is None or (not isinstance(text, str) and not text):
        return None
    if one.kind == "mapping":
        pairs = [_pair(one, item, error) for item in _items(one, text)]
        return _mapping(one, pairs, error)
    if one.kind == "list":
        return tuple(_plain(one, item, error) for item in _items(one, text))
    return _plain(one, text, error)


def _items(one: Option, text: Any) -> list[str]:
    """The texts of a list: from a repeated option, or from one text with separators."""
    if isinstance(text, str):
        split = text.split(one.rule.separator) if one.rule.separator else [text]
        return [item.strip() for item in split if item.strip()]
    return list(text)


def _pair(one: Option, text: str, error: Error) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise error(f"--{one.flag} {shortened(text)}: write {one.rule.form}")
    return name, value


def _mapping(one: Option, pairs: Iterable[tuple[str, Any]], error: Error) -> dict[str, Any]:
    values_by_name: dict[str, Any] = {}
    for name, value in pairs:
        if name in values_by_name and one.rule.each_once:
            raise error(f"--{one.flag} {name} is given twice: each name once")
        values_by_name[name] = _item(one, name, value, error)
    return values_by_name


def _item(one: Option, name: str, value: Any, error: Error) -> Any:
    """A value of a mapping: a text, a number, or several texts."""
    if get_origin(one.item) is tuple:
        split = isinstance(value, str)
        texts = value.split(one.rule.separator) if split else _listed(value, error)
        items = dict.fromkeys(text_value(item, error).strip() for item in texts)
        if named := tuple(item for item in items if item):
            return named
        raise error(f"--{one.flag} {shortened(f'{name}=')}: write {one.rule.form}")
    if one.item is float:
        return _plain(one, value, error, f" {name}")
    return text_value(value, error)


def _plain(one: Option, value: Any, error: Error, of: str = "") -> Any:
    """The value of what is typed, or is read as if it were; `of` names it among several."""
    try:
        return one.rule.parsed(str(value))
    except ValueError as wrong:
        if not isinstance(wrong, Unfit):  # of an integer with thousands of digits
            wrong = Unfit(one.rule.wanted, value)
        raise error(wrong.of(_shown(one) + of)) from None


def _valued(one: Option, value: Any, error: Error) -> Any:
    """The option's value from a Python value; None for the default."""
    if one.rule.bare is not None and isinstance(value, bool):
        return one.rule.bare if value else None
    if value is None:
        return None
    if one.kind == "flag":
        if isinstance(value, (str, bytes)):
            raise error(f"{one.name}: {shortened(value)} is neither True nor False")
        return bool(value)
    if one.kind == "mapping":
        return _mapping(one, _pairs(one, value, error), error)
    if isinstance(value, str):
        # A list of texts is not one text, of which each character would be an item.
        if one.kind == "list" and not one.rule.separator:
            raise error(f"{shortened(value)}: write a list, such as ['A', 'B']")
        return _typed(one, text_value(value, error), error)
    if one.kind == "list":
        return tuple(_scalar(one, item, error) for item in _listed(value, error))
    if one.rule.joined and not isinstance(value, os.PathLike):
        return _joined(one, value, error)
    return _scalar(one, value, error)


def _pairs(one: Option, value: Any, error: Error) -> Iterable[tuple[str, Any]]:
    """The names and values of a mapping, or of a list of texts such as NAME=VALUE."""
    if isinstance(value, Mapping):
        return [(text_value(name, error), inner) for name, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [_pair(one, text_value(text, error), error) for text in value]
    raise error(f"{shortened(value)}: write a mapping, such as {{'name': 1}}")


def _listed(value: Any, error: Error) -> Iterable[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise error(f"{shortened(value)}: write a list, such as ['A', 'B']")
    items = list(value)
    if any(item is None for item in items):
        raise error(f"{shortened(items)}: a list without None")
    return items


def _object(value: Mapping[Any, Any], error: Error) -> str:
    try:
        return sagemaker.object_of(value)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise error(f"{shortened(value)}: write what JSON can have: {wrong}") from None


def _joined(one: Option, value: Any, error: Error) -> str:
    """A list as one text; a mapping as the arguments of a program."""
    if isinstance(value, Mapping):
        value = [item for name, given in value.items() for item in (f"--{name}", given)]
    texts = [text_value(item, error) for item in _listed(value, error)]
    return shlex.join(texts) if one.rule.joined == " " else one.rule.joined.join(texts)


def _scalar(one: Option, value: Any, error: Error) -> Any:
    """A text or a number, read as if it were typed; a whole number may be of any integer type."""
    if one.item is int and not isinstance(value, (str, bool)):
        with contextlib.suppress(TypeError):
            value = operator.index(value)
    return _plain(one, text_value(value, error) if one.item is str else value, error)


def typed_texts(value: Any) -> list[str]:
    """The texts to type for an option's value, each after the flag; none for a switch."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, Mapping):
        return [f"{name}={number_text(inner)}" for name, inner in value.items()]
    return [number_text(item) for item in (value if isinstance(value, tuple) else (value,))]


def _shown(one: Option) -> str:
    return one.name.upper() if one.rule.positional else f"--{one.flag}"


def described(one: Option) -> str:
    """What an option means, in Markdown: its text, its bounds and its default."""
    commas = one.kind == "list" and one.rule.separator == ","
    texts = [one.rule.text, "repeatable" * one.repeats, "separated by commas" * commas]
    texts.append(one.rule.bounds)
    if one.rule.unit and one.rule.bounds:
        texts[-1] += f" {rule.UNITS[one.rule.unit]}, or as 30m"
    if isinstance(one.default, (int, float, str)) and one.kind != "flag":
        texts.append(f"default: `{number_text(one.default)}`")
    return "; ".join(filter(None, texts))


def plain(text: str) -> str:
    """A text in Markdown as a terminal shows it: without links that only point to more."""
    return LINK.sub(r"\1", POINTER.sub("", text)).replace("`", "").replace("\\|", "|")


def only(*names: str, **notes: str) -> Only:
    """Only these options of a group, and those in `notes`, with what differs for this task."""
    return Only((*names, *notes), notes)


@dataclass(frozen=True)
class Only:
    """Which options of a group a task has; all others keep their defaults. `notes`: other texts."""

    names: tuple[str, ...]
    notes: Mapping[str, str]


def chosen(group: type[Any], which: Only | None) -> Sequence[Option]:
    """The options of a group that a task has, in their order."""
    if which is None:
        return options_in(group)
    return [_noted(one, which.notes) for one in options_in(group) if one.name in which.names]


def _noted(one: Option, notes: Mapping[str, str]) -> Option:
    if one.name not in notes:
        return one
    return replace(one, rule=replace(one.rule, text=notes[one.name]))
