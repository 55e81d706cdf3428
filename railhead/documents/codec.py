"""Documents as frozen dataclasses: `decode` checks a JSON value against one, `encode` writes one.

Standard library only (so not pydantic), because hosts have no other packages. Python 3.10.
"""

from __future__ import annotations

import functools
import operator
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from railhead.documents.lazy import FIELDS, MISSING, dataclass, field, fields

T = TypeVar("T")
LARGEST = 2**63  # of any number, exclusive
SHOWN = 60  # characters of a wrong value in a message
LONGEST = 600  # characters of a message
KINDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
_RULE = "rule"


Read = Callable[[Any, int], Any]  # from a JSON value in a document of this schema


class Malformed(ValueError):
    """A value that does not fit its document; the message has the path of the key."""


class _Wrong(Malformed):
    """What a value must be. The containers of the value put its path before `at`."""

    def __init__(self, wanted: str, value: Any = MISSING) -> None:
        self.wanted, self.value, self.at = wanted, value, ""

    def __str__(self) -> str:
        shown = "" if self.value is MISSING else f", not {_shortened(self.value)}"
        return f"{_printable(self.at.lstrip('.')) or 'it'} must be {self.wanted}{shown}"


@dataclass(frozen=True)
class Rule:
    """The requirements on a value besides its type. `check`: a predicate, and its description for
    the message "must be WORDS"."""

    choices: tuple[Any, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    pattern: str = ""
    check: tuple[Callable[[Any], bool], str] | None = None
    since: int = 0
    omit: bool = False
    rest: bool = False
    doc: str = ""


def key(
    default: Any = MISSING,
    *,
    choices: Iterable[Any] = (),
    at_least: float | None = None,
    at_most: float | None = None,
    pattern: str = "",
    check: tuple[Callable[[Any], bool], str] | None = None,
    since: int = 0,
    omit: bool = False,
    rest: bool = False,
    doc: str = "",
) -> Any:
    """A key of a document, with its rules; they hold for each item of a list, not for null.

    A field `class_` is the key "class". Where a type is `Annotated[kind, read]`, the value is what
    `read` makes of the JSON value.

    Args:
        default: the value for a document without the key. Without a default the key is required.
        pattern: a regular expression that the whole text matches.
        since: documents of an older `schema` may lack the key, and get the default; in those of
            this schema and newer ones it is required.
        omit: the key is not written where its value is the default.
        rest: not a key: a mapping of all keys that the dataclass does not have.
        doc: the cell of the table in docs/architecture.md, of the documents that have one.
    """
    rule = Rule(tuple(choices), at_least, at_most, pattern, check, since, omit, rest, doc)
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata={_RULE: rule})
    return field(default=default, metadata={_RULE: rule})


def described(kind: type[Any]) -> dict[str, str]:
    """What each key of a document means, where it is declared."""
    rules = {one.name: one.metadata.get(_RULE, Rule()) for one in fields(kind)}
    return {name: rule.doc for name, rule in rules.items()}


def decode(
    kind: type[T],
    value: Any,
    *,
    what: str = "the document",
    error: Callable[[str], Exception] = Malformed,
    unknown_keys: bool = True,
) -> T:
    """The document in a JSON value.

    Args:
        kind: a dataclass, or another type that a key may have: `tuple[Host, ...]`, `Mapping[str,
            int]`, `int | None`, a Literal.
        what: names the document in messages.
        error: makes the exception from the message, such as "hosts[0].port must be an integer".
        unknown_keys: ignore keys that are not in the dataclass; otherwise they are refused.

    Raises:
        error: a key is missing, of another type, or not within its rules.
    """
    try:
        return cast(T, _reader(cast(Any, kind), Rule(), unknown_keys)(value, 0))
    except Malformed as wrong:
        raise error(f"{what}: {wrong}"[:LONGEST]) from None


def encode(document: Any) -> Any:
    """A document as JSON values."""
    if isinstance(document, (str, int, float)) or document is None:
        return document
    if hasattr(document, FIELDS):
        kind: Any = type(document)
        values: dict[str, Any] = {}
        for attribute, name, rule, default in _written(kind):
            value = getattr(document, attribute)
            if not rule.omit or value != default:
                # What a program wrote is JSON already, perhaps deeper than this can follow.
                values |= value if rule.rest else {name: encode(value)}
        return values
    if isinstance(document, Mapping):
        return {name: encode(value) for name, value in document.items()}
    return [encode(item) for item in document] if isinstance(document, (tuple, list)) else document


@functools.cache
def _written(kind: Any) -> tuple[tuple[str, str, Rule, Any], ...]:
    """Attribute, key, rule and default of each field."""
    return tuple((f.name, _name(f), rule_of(f), _default(f)) for f in fields(kind))


def _name(one: Any) -> str:
    """The key of a field."""
    return cast(str, one.name.removesuffix("_"))


def rule_of(one: Any) -> Rule:
    return cast(Rule, one.metadata.get(_RULE, Rule()))


def _default(one: Any) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


# A type becomes a function once; the lists of a run have a hundred thousand files.
@functools.cache
def _reader(kind: Any, rule: Rule, unknown_keys: bool) -> Read:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value, schema: value
    if origin is Annotated:
        return lambda value, schema: inner[1](value)
    if hasattr(kind, FIELDS):
        return _record(kind, unknown_keys).read
    if origin in (Union, types.UnionType):
        return _one_of(inner, rule, unknown_keys)
    if origin is Literal:
        return _plain(object, Rule(choices=inner))
    if origin is tuple:
        many = inner[-1] is Ellipsis
        reads = [_reader(each, rule, unknown_keys) for each in (inner[:1] if many else inner)]
        return functools.partial(_items, reads, many)
    if origin is not None and issubclass(origin, Mapping):
        return functools.partial(_mapping, _reader(inner[1], rule, unknown_keys))
    return _plain(kind, rule)


@dataclass(frozen=True)
class _Key:
    attribute: str
    kind: Any
    read: Read
    rule: Rule
    optional: bool

    def is_needed(self, schema: int) -> bool:
        """Whether an object of a document of this schema must have it."""
        return not self.optional or 0 < self.rule.since <= schema


class _Record:
    """Reads the objects of one dataclass."""

    def __init__(self, kind: Any, unknown_keys: bool) -> None:
        self.kind, self.unknown_keys = kind, unknown_keys

    @functools.cached_property
    def all_keys(self) -> dict[str, _Key]:
        """By name; not before the first use, because a dataclass may contain itself."""
        hints = get_type_hints(self.kind, include_extras=True)
        return {
            _name(f): _Key(
                f.name,
                hints[f.name],
                _reader(hints[f.name], rule_of(f), self.unknown_keys),
                rule_of(f),
                (f.default, f.default_factory) != (MISSING, MISSING),
            )
            for f in fields(self.kind)
            if f.init
        }

    @functools.cached_property
    def keys(self) -> dict[str, _Key]:
        """The keys of the object itself."""
        return {name: key for name, key in self.all_keys.items() if not key.rule.rest}

    @functools.cached_property
    def rest(self) -> _Key | None:
        """The field for all other keys of an object."""
        return next((key for key in self.all_keys.values() if key.rule.rest), None)

    def read(self, value: Any, schema: int) -> Any:
        """The dataclass of an object."""
        if not isinstance(value, dict):
            raise _Wrong(f"an object with the keys {', '.join(self.keys)}", value)
        own = value.get("schema") if "schema" in self.keys else None
        if isinstance(own, int) and not isinstance(own, bool):
            schema = own
        missing = [n for n, k in self.keys.items() if n not in value and k.is_needed(schema)]
        if missing:
            raise _Wrong(f"an object that also has the keys {', '.join(missing)}")
        arguments, name = {}, ""
        try:
            for name, key in self.keys.items():
                if name in value:
                    arguments[key.attribute] = key.read(value[name], schema)
        except _Wrong as wrong:
            wrong.at = f".{name}{wrong.at}"
            raise
        if len(value) > len(arguments):
            self._read_others(value, arguments, schema)
        return self.kind(**arguments)

    def _read_others(
        self, value: Mapping[str, Any], arguments: dict[str, Any], schema: int
    ) -> None:
        """Put the keys that are not of the dataclass where it has them, or refuse them."""
        others = {name: inner for name, inner in value.items() if name not in self.keys}
        if self.rest:
            arguments[self.rest.attribute] = self.rest.read(others, schema)
        elif not self.unknown_keys:
            known = ", ".join(self.keys)
            raise _Wrong(
                f"an object without the keys {_printable(', '.join(others))}; it has {known}"
            )


@functools.cache
def _record(kind: Any, unknown_keys: bool) -> _Record:
    return _Record(kind, unknown_keys)


def _items(reads: list[Read], many: bool, value: Any, schema: int) -> Any:
    """A list of this length, or with `many` of any length, whose items are all read alike."""
    if not isinstance(value, (list, tuple)):
        raise _Wrong("a list", value)
    if not many and len(value) != len(reads):
        raise _Wrong(f"a list of {len(reads)}", value)
    items: list[Any] = []
    try:
        for read, item in zip(repeat(reads[0]) if many else reads, value, strict=False):
            items.append(read(item, schema))
    except _Wrong as wrong:
        wrong.at = f"[{len(items)}]{wrong.at}"
        raise
    return tuple(items)


def _mapping(read: Read, value: Any, schema: int) -> Any:
    if not isinstance(value, dict):
        raise _Wrong("an object", value)
    values, name = {}, ""
    try:
        for name, inner in value.items():
            values[name] = read(inner, schema)
    except _Wrong as wrong:
        wrong.at = f".{name}{wrong.at}"
        raise
    return values


def _one_of(kinds: Iterable[Any], rule: Rule, unknown_keys: bool) -> Read:
    """Of a union: the first kind that fits; errors are those of the last, or of a tagged one."""
    nullable = type(None) in kinds
    reads = [(k, _reader(k, rule, unknown_keys)) for k in kinds if k is not type(None)]

    def read(value: Any, schema: int) -> Any:
        if value is None and nullable:
            return None
        for kind, attempt in reads[:-1]:
            try:
                return attempt(value, schema)
            except Malformed:
                if _is_tagged(kind, value):
                    raise
        return reads[-1][1](value, schema)

    return read


def _is_tagged(kind: Any, value: Any) -> bool:
    """Whether the value names this dataclass of a union, by a key that is a Literal."""
    if not hasattr(kind, FIELDS) or not isinstance(value, dict):
        return False
    keys = _record(kind, True).keys.items()
    tags = [(name, get_args(key.kind)) for name, key in keys if get_origin(key.kind) is Literal]
    return bool(tags) and all(value.get(name) in choices for name, choices in tags)


def _plain(kind: Any, rule: Rule) -> Read:
    """A text, a number, true or false."""
    right = (int, float) if kind is float else kind
    is_number, words, checks = kind in (int, float), KINDS.get(kind, str(kind)), [*_checks(rule)]

    def read(value: Any, schema: int) -> Any:
        if not isinstance(value, right) or (isinstance(value, bool) and kind in (int, float)):
            raise _Wrong(words, value)
        if is_number and not -LARGEST < value < LARGEST:  # also NaN
            raise _Wrong("a finite number below 2^63", value)
        for fits, wanted in checks:
            if not fits(value):
                raise _Wrong(wanted, value)
        return float(value) if kind is float else value

    return read


def _checks(rule: Rule) -> Iterator[tuple[Callable[[Any], Any], str]]:
    """Predicates of a rule, and what a value must be."""
    if rule.choices:
        words = f"one of {', '.join(map(str, rule.choices))}"
        yield functools.partial(_is_one, rule.choices), words
    if rule.at_least is not None:
        yield functools.partial(operator.le, rule.at_least), f"at least {rule.at_least:g}"
    if rule.at_most is not None:
        yield functools.partial(operator.ge, rule.at_most), f"at most {rule.at_most:g}"
    if rule.pattern:
        yield re.compile(rule.pattern).fullmatch, f"a text that matches {rule.pattern}"
    if rule.check:
        yield rule.check


def _is_one(choices: tuple[Any, ...], value: Any) -> bool:
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _printable(at: str) -> str:
    """A path as a message shows it: its keys may be those of a host."""
    text = at if at.isprintable() else repr(at)
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}..."


def _shortened(value: Any) -> str:
    """A value as a message shows it: one line of at most SHOWN characters."""
    text = repr(value) if not isinstance(value, int) or abs(value) < LARGEST else "a larger number"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
