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
        text: what the option does, in Markdown, without its bounds, and without a default that is a
            value.
        python: the line of the Python interface, if its values have another form.
        flag: the name on the command line, without dashes; default: the name of the field. A flag
            whose default is True is switched off: `stop` by `--no-stop`.
        form: the form of a mapping's item, such as NAME=NUMBER. each_once: no name twice.
        separator: separates a list, or a mapping's values, in one text such as 1,2,4.
        path: the value is a file or folder, relative to the folder where the command was typed.
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
        kind = next(member for member in get_args(kind) if member is not type(None))
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
    rules = {opt.name: opt.rule for opt in options_in(group)}
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
    known = {opt.name: opt for opt in options_in(group)}
    read_values = {name: read(known[name], value, error) for name, value in values.items()}
    return group(**{name: value for name, value in read_values.items() if value is not None})


def _typed(opt: Option, text: Any, error: Error) -> Any:
    """The value of what was typed; None for the default."""
    if opt.kind == "flag":
        return not opt.default if text else None
    if text is None or (not isinstance(text, str) and not text):
        return None
    if opt.kind == "mapping":
        pairs = [_pair(opt, item, error) for item in _items(opt, text)]
        return _mapping(opt, pairs, error)
    if opt.kind == "list":
        return tuple(_plain(opt, item, error) for item in _items(opt, text))
    return _plain(opt, text, error)


def _items(opt: Option, text: Any) -> list[str]:
    """The texts of a list: from a repeated option, or from one text with separators."""
    if isinstance(text, str):
        split = text.split(opt.rule.separator) if opt.rule.separator else [text]
        return [item.strip() for item in split if item.strip()]
    return list(text)


def _pair(opt: Option, text: str, error: Error) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise error(f"--{opt.flag} {shortened(text)}: write {opt.rule.form}")
    return name, value


def _mapping(opt: Option, pairs: Iterable[tuple[str, Any]], error: Error) -> dict[str, Any]:
    values_by_name: dict[str, Any] = {}
    for name, value in pairs:
        if name in values_by_name and opt.rule.each_once:
            raise error(f"--{opt.flag} {name} is given twice: each name once")
        values_by_name[name] = _item(opt, name, value, error)
    return values_by_name


def _item(opt: Option, name: str, value: Any, error: Error) -> Any:
    """A value of a mapping: a text, a number, or several texts."""
    if get_origin(opt.item) is tuple:
        split = isinstance(value, str)
        texts = value.split(opt.rule.separator) if split else _listed(value, error)
        items = dict.fromkeys(text_value(item, error).strip() for item in texts)
        if named := tuple(item for item in items if item):
            return named
        raise error(f"--{opt.flag} {shortened(f'{name}=')}: write {opt.rule.form}")
    if opt.item is float:
        return _plain(opt, value, error, f" {name}")
    return text_value(value, error)


def _plain(opt: Option, value: Any, error: Error, of: str = "") -> Any:
    """The value of what is typed, or is read as if it were; `of` names it among several."""
    try:
        return opt.rule.parsed(str(value))
    except ValueError as wrong:
        if not isinstance(wrong, Unfit):  # of an integer with thousands of digits
            wrong = Unfit(opt.rule.expected, value)
        raise error(wrong.of(_shown(opt) + of)) from None


def _valued(opt: Option, value: Any, error: Error) -> Any:
    """The option's value from a Python value; None for the default."""
    if opt.rule.bare is not None and isinstance(value, bool):
        return opt.rule.bare if value else None
    if value is None:
        return None
    if opt.kind == "flag":
        if isinstance(value, (str, bytes)):
            raise error(f"{opt.name}: {shortened(value)} is neither True nor False")
        return bool(value)
    if opt.kind == "mapping":
        return _mapping(opt, _pairs(opt, value, error), error)
    if isinstance(value, str):
        # A list of texts is not one text, of which each character would be an item.
        if opt.kind == "list" and not opt.rule.separator:
            raise error(f"{shortened(value)}: write a list, such as ['A', 'B']")
        return _typed(opt, text_value(value, error), error)
    if opt.kind == "list":
        return tuple(_scalar(opt, item, error) for item in _listed(value, error))
    if opt.rule.joined and not isinstance(value, os.PathLike):
        return _joined(opt, value, error)
    return _scalar(opt, value, error)


def _pairs(opt: Option, value: Any, error: Error) -> Iterable[tuple[str, Any]]:
    """The names and values of a mapping, or of a list of texts such as NAME=VALUE."""
    if isinstance(value, Mapping):
        return [(text_value(name, error), inner) for name, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [_pair(opt, text_value(text, error), error) for text in value]
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


def _joined(opt: Option, value: Any, error: Error) -> str:
    """A list as one text; a mapping as the arguments of a program."""
    if isinstance(value, Mapping):
        value = [item for name, argument in value.items() for item in (f"--{name}", argument)]
    texts = [text_value(item, error) for item in _listed(value, error)]
    return shlex.join(texts) if opt.rule.joined == " " else opt.rule.joined.join(texts)


def _scalar(opt: Option, value: Any, error: Error) -> Any:
    """A text or a number, read as if it were typed; a whole number may be of any integer type."""
    if opt.item is int and not isinstance(value, (str, bool)):
        with contextlib.suppress(TypeError):
            value = operator.index(value)
    return _plain(opt, text_value(value, error) if opt.item is str else value, error)


def typed_texts(value: Any) -> list[str]:
    """The texts to type for an option's value, each after the flag; none for a switch."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, Mapping):
        return [f"{name}={number_text(inner)}" for name, inner in value.items()]
    return [number_text(item) for item in (value if isinstance(value, tuple) else (value,))]


def _shown(opt: Option) -> str:
    return opt.name.upper() if opt.rule.positional else f"--{opt.flag}"


def described(opt: Option) -> str:
    """What an option means, in Markdown: its text, its bounds and its default."""
    commas = opt.kind == "list" and opt.rule.separator == ","
    texts = [opt.rule.text, "repeatable" * opt.repeats, "separated by commas" * commas]
    texts.append(opt.rule.bounds)
    if opt.rule.unit and opt.rule.bounds:
        texts[-1] += f" {rule.UNITS[opt.rule.unit]}, or as 30m"
    if isinstance(opt.default, (int, float, str)) and opt.kind != "flag":
        texts.append(f"default: `{number_text(opt.default)}`")
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


def chosen(group: type[Any], selection: Only | None) -> Sequence[Option]:
    """The options of a group that a task has, in their order."""
    if selection is None:
        return options_in(group)
    return [
        _noted(opt, selection.notes) for opt in options_in(group) if opt.name in selection.names
    ]


def _noted(opt: Option, notes: Mapping[str, str]) -> Option:
    if opt.name not in notes:
        return opt
    return replace(opt, rule=replace(opt.rule, text=notes[opt.name]))
