"""Documents as frozen dataclasses: `decode` checks a JSON value against one, `encode` writes one.

Standard library only (so not pydantic), because hosts have no other packages. Python 3.10.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping
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

from railhead.documents.lazy import FIELDS, MISSING, dataclass, field, fields, replace
from railhead.documents.rule import Malformed as Malformed
from railhead.documents.rule import Rule, Unfit, printable

T = TypeVar("T")
LONGEST = 600  # characters of a message
NO_RULE = Rule()
KEY = "key"  # of the metadata of a field

Read = Callable[[Any, int], Any]  # from a JSON value in a document of this schema


@dataclass(frozen=True)
class Key:
    """What is declared for a key of a document, as in `key`."""

    rule: Rule = NO_RULE
    since: int = 0
    omit: bool = False
    rest: bool = False
    path: str = ""
    doc: str = ""


def key(
    default: Any = MISSING,
    *,
    choices: Iterable[Any] = (),
    since: int = 0,
    omit: bool = False,
    rest: bool = False,
    path: str = "",
    doc: str = "",
    **rules: Any,
) -> Any:
    """A key of a document, with its rules, as in Rule; they hold for each item of a list, not for
    null.

    A field `class_` is the key "class". If a type is `Annotated[kind, read]`, the value is what
    `read` returns for the JSON value.

    Args:
        default: the value for a document without the key. Without a default the key is required.
        since: documents of an older `schema` may lack the key, and get the default; in those of
            this schema and newer ones it is required.
        omit: the key is not written if its value is the default.
        rest: not a key: a mapping of all keys that the dataclass does not have.
        path: as in `a.b`: the value is what is there in the object of the key, or in each object of
            a list; the default if nothing is there. For documents that others write.
        doc: the cell of the table in docs/architecture.md, of the documents that have one.
    """
    rule = Rule(choices=tuple(choices), **rules) if rules or choices else NO_RULE
    metadata = {KEY: Key(rule, since, omit, rest, path, doc)}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def described(kind: type[Any]) -> dict[str, str]:
    """What each key of a document means, where it is declared."""
    return {f.name: key_of(f).doc for f in fields(kind)}


def decode(
    kind: type[T],
    value: Any,
    *,
    what: str = "the document",
    error: Callable[[str], Exception] = Malformed,
    unknown_keys: bool = True,
    path: str = "",
) -> T:
    """The document in a JSON value.

    Args:
        kind: a dataclass, or another type that a key may have: `tuple[Host, ...]`, `Mapping[str,
            int]`, `int | None`, a Literal.
        what: names the document in messages.
        error: makes the exception from the message, such as "hosts[0].port must be an integer".
        unknown_keys: ignore keys that are not in the dataclass; otherwise they are refused.
        path: as in `key`: only what is there is decoded.

    Raises:
        error: a key is missing, of another type, or not within its rules.
    """
    try:
        return cast(T, _reader(cast(Any, kind), NO_RULE, unknown_keys)(_inside(value, path), 0))
    except Malformed as wrong:
        raise error(f"{what}: {wrong}"[:LONGEST]) from None


def encode(document: Any) -> Any:
    """A document as JSON values."""
    if isinstance(document, (str, int, float)) or document is None:
        return document
    if hasattr(document, FIELDS):
        kind: Any = type(document)
        values: dict[str, Any] = {}
        for attribute, name, declared, default in _written(kind):
            value = getattr(document, attribute)
            if not declared.omit or value != default:
                # What a program wrote is JSON already, perhaps deeper than this can follow.
                values |= value if declared.rest else {name: encode(value)}
        return values
    if isinstance(document, Mapping):
        return {name: encode(value) for name, value in document.items()}
    return [encode(item) for item in document] if isinstance(document, (tuple, list)) else document


@functools.cache
def _written(kind: Any) -> tuple[tuple[str, str, Key, Any], ...]:
    """Attribute, name, declaration and default of each key."""
    return tuple((f.name, _name(f), key_of(f), _default(f)) for f in fields(kind))


def _name(f: Any) -> str:
    """The key of a field."""
    return cast(str, f.name.removesuffix("_"))


def key_of(f: Any) -> Key:
    """The declaration of a field."""
    return cast(Key, f.metadata.get(KEY, Key()))


def _default(f: Any) -> Any:
    return f.default if f.default_factory is MISSING else f.default_factory()


# Each type is compiled into a function once: the lists of a run have a hundred thousand files.
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
        return _plain(Rule(object, choices=inner))
    if origin is tuple:
        many = inner[-1] is Ellipsis
        reads = [_reader(each, rule, unknown_keys) for each in (inner[:1] if many else inner)]
        return functools.partial(_items, reads, many)
    if origin is not None and issubclass(origin, Mapping):
        return functools.partial(_mapping, _reader(inner[1], rule, unknown_keys))
    return _plain(replace(rule, kind=kind))


def _field_reader(f: Any, kind: Any, unknown_keys: bool) -> Read:
    """The reader of a field, or of what is at its path."""
    declared, default = key_of(f), _default(f)
    read = _reader(kind, declared.rule, unknown_keys)
    if not declared.path:
        return read

    def read_inside(value: Any, schema: int) -> Any:
        inner = _inside(value, declared.path)
        return default if inner is MISSING else read(inner, schema)

    return read_inside


def _inside(value: Any, path: str) -> Any:
    """What is at a path of an object, or MISSING; of a list, what is there in its objects."""
    if not path:
        return value
    if isinstance(value, list):
        return [inner for item in value if (inner := _inside(item, path)) is not MISSING]
    if not isinstance(value, dict):
        raise Unfit("an object", value)
    name, _, rest = path.partition(".")
    return _inside(value[name], rest) if name in value else MISSING


@dataclass(frozen=True)
class _Key:
    attribute: str
    kind: Any
    read: Read
    declared: Key
    optional: bool

    def is_needed(self, schema: int) -> bool:
        """Whether an object of a document of this schema must have it."""
        return not self.optional or 0 < self.declared.since <= schema


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
                _field_reader(f, hints[f.name], self.unknown_keys),
                key_of(f),
                (f.default, f.default_factory) != (MISSING, MISSING),
            )
            for f in fields(self.kind)
            if f.init
        }

    @functools.cached_property
    def keys(self) -> dict[str, _Key]:
        """The keys of the object itself."""
        return {name: key for name, key in self.all_keys.items() if not key.declared.rest}

    @functools.cached_property
    def rest(self) -> _Key | None:
        """The field for all other keys of an object."""
        return next((key for key in self.all_keys.values() if key.declared.rest), None)

    def read(self, value: Any, schema: int) -> Any:
        """The dataclass of an object."""
        if not isinstance(value, dict):
            raise Unfit(f"an object with the keys {', '.join(self.keys)}", value)
        own_schema = value.get("schema") if "schema" in self.keys else None
        if isinstance(own_schema, int) and not isinstance(own_schema, bool):
            schema = own_schema
        missing = [n for n, k in self.keys.items() if n not in value and k.is_needed(schema)]
        if missing:
            raise Unfit(f"an object that also has the keys {', '.join(missing)}")
        arguments, name = {}, ""
        try:
            for name, key in self.keys.items():
                if name in value:
                    arguments[key.attribute] = key.read(value[name], schema)
        except Unfit as wrong:
            wrong.path = f".{name}{wrong.path}"
            raise
        if len(value) > len(arguments):
            self._read_others(value, arguments, schema)
        return self.kind(**arguments)

    def _read_others(
        self, value: Mapping[str, Any], arguments: dict[str, Any], schema: int
    ) -> None:
        """Put the keys that are not fields of the dataclass into its `rest`, or refuse them."""
        others = {name: inner for name, inner in value.items() if name not in self.keys}
        if self.rest:
            arguments[self.rest.attribute] = self.rest.read(others, schema)
        elif not self.unknown_keys:
            known = ", ".join(self.keys)
            raise Unfit(
                f"an object without the keys {printable(', '.join(others))}; it has {known}"
            )


@functools.cache
def _record(kind: Any, unknown_keys: bool) -> _Record:
    return _Record(kind, unknown_keys)


def _items(reads: list[Read], many: bool, value: Any, schema: int) -> Any:
    """A list of this length, or with `many` of any length, whose items are all read in the same
    way."""
    if not isinstance(value, (list, tuple)):
        raise Unfit("a list", value)
    if not many and len(value) != len(reads):
        raise Unfit(f"a list of {len(reads)}", value)
    items: list[Any] = []
    try:
        for read, item in zip(repeat(reads[0]) if many else reads, value, strict=False):
            items.append(read(item, schema))
    except Unfit as wrong:
        wrong.path = f"[{len(items)}]{wrong.path}"
        raise
    return tuple(items)


def _mapping(read: Read, value: Any, schema: int) -> Any:
    if not isinstance(value, dict):
        raise Unfit("an object", value)
    values, name = {}, ""
    try:
        for name, inner in value.items():
            values[name] = read(inner, schema)
    except Unfit as wrong:
        wrong.path = f".{name}{wrong.path}"
        raise
    return values


def _one_of(kinds: Iterable[Any], rule: Rule, unknown_keys: bool) -> Read:
    """The reader of a union: takes the first kind that fits; errors are those of the last kind, or
    of a tagged one."""
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


def _plain(rule: Rule) -> Read:
    """A text, a number, true or false."""
    fitting = rule.reader()
    return lambda value, schema: fitting(value)
