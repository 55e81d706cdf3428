"""An option is a field of a frozen dataclass: its type, default, help and rules, in one place.

These declarations define the options of the `fab` tasks and their help, the arguments of the Python
interface, the tables of docs/tasks-*.md, and what `fab train --resume` reuses. `from_texts` reads
typed texts, `from_values` reads Python values; both return the same dataclass.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
import re
import shlex
import types
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from railhead.documents import sagemaker
from railhead.documents.lazy import MISSING, dataclass, field, fields

T = TypeVar("T")
Error = Callable[[str], Exception]
LONGEST_SHOWN = 100  # characters of a wrong value in a message
LARGEST = 2.0**63  # of a number of a mapping, exclusive: as in a document
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}  # of a duration
DIGITS = 20  # of a whole number; int() of more takes long
KEY = "option"  # of the metadata of a field
KINDS = {bool: "flag", str: "text", int: "int", float: "float"}
TYPES = {"flag": "switch", "list": "list", "mapping": "list", "int": "number", "float": "number"}


@dataclass(frozen=True)
class Rule:
    """What is declared for an option besides its name, type and default.

    Args:
        help: one line for `fab --help TASK`. doc: the cell of that table, if it differs.
        python: the line of the Python interface, if its values have another form.
        flag: the name on the command line, without dashes; default: the name of the field. A flag
            whose default is True is switched off: `stop` by `--no-stop`.
        at_least, at_most: the inclusive bounds of a number.
        form: the form of a mapping's item, such as NAME=NUMBER. each_once: no name twice.
        separator: separates a list, or a mapping's values, in one text such as 1,2,4.
        path: the value is a file or folder, relative to where the command was typed.
        joined: joins a Python list into one text: `,`, or ` ` for the arguments of a program.
        positional: on the command line the value is typed without the option's name.
        short: the letter of the short form, such as `-f`. was: the name in older run records.
        unit: of a number without one: `s`, `m` or `h`. A text may be a duration: 90s, 30m, 2h.
        bare: the number of an option that is typed without one, or is True.
        whole_with: the option with which a mapping is joined as a JSON object, with all its types.
    """

    help: str
    doc: str = ""
    python: str = ""
    flag: str = ""
    choices: tuple[Any, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    form: str = "NAME=VALUE"
    each_once: bool = False
    separator: str = ""
    path: bool = False
    joined: str = ""
    positional: bool = False
    short: str = ""
    was: str = ""
    unit: str = ""
    bare: int | None = None
    whole_with: str = ""


def option(default: Any = MISSING, help: str = "", **rules: Any) -> Any:
    """A field of a group of options; `rules` as in Rule."""
    metadata = {KEY: Rule(help, **rules)}
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
    return Option(declared.name, name, item, default, declared.metadata[KEY])


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


def shortened(value: object) -> str:
    """The repr of what a user wrote, for a message; cut if it is long."""
    try:
        shown = repr(value)
    except ValueError:  # of an integer with thousands of digits
        shown = "an integer that is too long"
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."


def _made(group: type[T], values: Mapping[str, Any], error: Error, read: Any) -> T:
    known = {one.name: one for one in options_in(group)}
    read_values = {name: read(known[name], value, error) for name, value in values.items()}
    present = {name: value for name, value in read_values.items() if value is not None}
    return group(**{name: _bounded(known[name], value, error) for name, value in present.items()})


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
        number = _float(value)
        if not abs(number) < LARGEST:
            raise error(f"--{one.flag} {name}: {shortened(value)} is not a number below 2^63")
        return number
    return text_value(value, error)


def _plain(one: Option, text: str, error: Error) -> Any:
    if one.item is int:
        if text.isascii() and text.isdigit() and len(text) <= DIGITS:
            return int(text)
    elif one.item is float:
        number = _duration(text, one.rule.unit) if one.rule.unit else _float(text)
        if not math.isnan(number):
            return number
    else:
        return text_value(text, error)
    raise error(f"{_shown(one)}: {shortened(text)} is not {_range(one)}")


def _duration(text: str, unit: str) -> float:
    """A number of `unit`, from a number or from a duration such as 90s; NaN if it is neither."""
    match = re.fullmatch(r"(.*\d) ?([smhd])", text)
    if not match:
        return _float(text)
    return _float(match[1]) * SECONDS[match[2]] / SECONDS[unit]


def _float(value: Any) -> float:
    """A number as it is printed, so that 0.1 of 32 bits is 0.1; NaN if it is not a number."""
    try:
        return float(str(value))
    except (TypeError, ValueError, OverflowError):
        return math.nan


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
            return operator.index(value)
    if one.item is str:
        return text_value(value, error)
    try:
        text = str(value)
    except ValueError:  # of an integer with thousands of digits
        text = "nan"
    return _plain(one, text, error)


def _bounded(one: Option, value: Any, error: Error) -> Any:
    """The value; an error if it is not within the bounds and choices of its option."""
    rule = one.rule
    for each in value if one.kind == "list" else [value]:
        low = rule.at_least is not None and not each >= rule.at_least
        high = rule.at_most is not None and not each <= rule.at_most
        if low or high or (rule.choices and each not in rule.choices):
            shown = number_text(each) if isinstance(each, float) else shortened(each)
            raise error(f"{_shown(one)}: {shown} is not {_range(one)}")
    return value


def typed_texts(value: Any) -> list[str]:
    """The texts to type for an option's value, each after the flag; none for a switch."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, Mapping):
        return [f"{name}={number_text(inner)}" for name, inner in value.items()]
    return [number_text(item) for item in (value if isinstance(value, tuple) else (value,))]


def number_text(value: Any) -> str:
    """A number as a person types it, with all digits: 3 for 3.0; other values as they are."""
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)


def choices_of(one: Option) -> str:
    """The choices as text, such as `2 or 3`."""
    *others, last = map(str, one.rule.choices)
    return f"{', '.join(others)} or {last}" if others else last


def _shown(one: Option) -> str:
    return one.name.upper() if one.rule.positional else f"--{one.flag}"


def _range(one: Option) -> str:
    rule = one.rule
    number = "a whole number" if one.item is int else "a number"
    if rule.choices:
        return choices_of(one)
    if rule.at_least is None or rule.at_most is None:
        return number
    also = ", or a duration such as 90s, 30m or 2h" if rule.unit else ""
    return f"{number} from {rule.at_least:g} to {rule.at_most:g}{also}"


def type_of(one: Option) -> str:
    """The type as the documentation names it: switch, text, number, duration or list."""
    return "duration" if one.rule.unit else TYPES.get(one.kind, "text")


def only(*names: str, **notes: str) -> Only:
    """Only these options of a group, and those in `notes`, with what differs for this task."""
    return Only((*names, *notes), notes)


@dataclass(frozen=True)
class Only:
    """Which options of a group a task has; all others keep their defaults."""

    names: tuple[str, ...]
    notes: Mapping[str, str]


def chosen(group: type[Any], which: Only | None) -> Sequence[Option]:
    """The options of a group that a task has, in their order."""
    return [one for one in options_in(group) if which is None or one.name in which.names]
