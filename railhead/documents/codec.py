"""Documents as frozen dataclasses: `decode` checks a JSON value against one, `encode` writes one.

Standard library only (hence not pydantic), because hosts have nothing else. Python 3.10.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from keyword import iskeyword
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

T = TypeVar("T")
LARGEST = 2**63  # of any number, exclusive
SHOWN = 60  # characters of a wrong value in a message
LONGEST = 600  # characters of a message
KINDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
_RULE = "rule"


class Malformed(ValueError):
    """A value that does not fit its document; the message has the path of the key."""


@dataclass(frozen=True)
class Rule:
    """What else than its type is required of a value. `check`: a predicate, and the words for it:
    "must be WORDS"."""

    choices: tuple[Any, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    pattern: str = ""
    check: tuple[Callable[[Any], bool], str] | None = None
    since: int = 0
    omit: bool = False
    rest: bool = False


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
) -> Any:
    """A key of a document, with its rules; they hold for each item of a list, not for null.

    A field `class_` is the key "class". Where a type is `Annotated[kind, read]`, the value is what
    `read` makes of the JSON value.

    Args:
        default: of a document without the key. Without a default the key is required.
        pattern: a regular expression that the whole text matches.
        since: documents of an older `schema` may lack the key, and get the default; in those of
            this schema and newer ones it is required.
        omit: the key is not written where its value is the default.
        rest: not a key: a mapping of all keys that the dataclass does not have.
    """
    rule = Rule(tuple(choices), at_least, at_most, pattern, check, since, omit, rest)
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata={_RULE: rule})
    return field(default=default, metadata={_RULE: rule})


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
        unknown_keys: ignore keys that are not in the dataclass; else they are refused.

    Raises:
        error: a key is missing, of another type, or not within its rules.
    """
    try:
        return cast(T, _Decoder(unknown_keys).value(kind, value, "", Rule(), 0))
    except Malformed as wrong:
        raise error(f"{what}: {wrong}"[:LONGEST]) from None


def encode(document: Any) -> Any:
    """A document as JSON values."""
    if is_dataclass(document):
        found: dict[str, Any] = {}
        for f in _written(document):
            value = encode(getattr(document, f.name))
            found |= value if _rule(f).rest else {_name(f): value}
        return found
    if isinstance(document, Mapping):
        return {name: encode(value) for name, value in document.items()}
    return [encode(item) for item in document] if isinstance(document, (tuple, list)) else document


def _written(document: Any) -> list[Any]:
    return [
        f for f in fields(document) if not _rule(f).omit or getattr(document, f.name) != _default(f)
    ]


def _name(found: Any) -> str:
    """The key of a field."""
    return cast(str, found.name.removesuffix("_"))


def _attribute(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name


def _rule(found: Any) -> Rule:
    return cast(Rule, found.metadata.get(_RULE, Rule()))


def _default(found: Any) -> Any:
    return found.default if found.default_factory is MISSING else found.default_factory()


@functools.cache
def _cached_keys(kind: Any) -> tuple[tuple[str, Any, Rule, bool], ...]:
    """Name, type and rule of each key of a dataclass, and whether it has a default."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (_name(f), hints[f.name], _rule(f), (f.default, f.default_factory) != (MISSING, MISSING))
        for f in fields(kind)
        if f.init
    )


def _keys(kind: Any) -> tuple[tuple[str, Any, Rule, bool], ...]:
    return _cached_keys(kind)


@dataclass(frozen=True)
class _Decoder:
    unknown_keys: bool

    def value(self, kind: Any, value: Any, at: str, rule: Rule, schema: int) -> Any:
        origin = get_origin(kind)
        if kind is Any:
            return value
        if origin is Annotated:
            return get_args(kind)[1](value)
        if is_dataclass(kind):
            return self.record(kind, value, at, schema)
        if origin in (Union, types.UnionType):
            return self.one_of(get_args(kind), value, at, rule, schema)
        if origin is Literal:
            return _chosen(value, get_args(kind), at)
        if origin is tuple:
            return self.items(get_args(kind), value, at, rule, schema)
        if origin is not None and issubclass(origin, Mapping):
            inner = get_args(kind)[1]
            mapping = value if isinstance(value, dict) else _refuse("an object", at, value)
            return {k: self.value(inner, v, f"{at}.{k}", rule, schema) for k, v in mapping.items()}
        return _plain(kind, value, at, rule)

    def record(self, kind: Any, value: Any, at: str, schema: int) -> Any:
        keys = [k for k in _keys(kind) if not k[2].rest]
        names = [name for name, *_ in keys]
        if not isinstance(value, dict):
            _refuse(f"an object with the keys {', '.join(names)}", at, value)
        schema = _schema(kind, value, schema)
        missing = [
            name
            for name, _, rule, optional in keys
            if name not in value and not (optional and (not rule.since or schema < rule.since))
        ]
        if missing:
            _refuse(f"an object that also has the keys {', '.join(missing)}", at)
        others = {name: inner for name, inner in value.items() if name not in names}
        found = {
            _attribute(name): self.value(inner, value[name], f"{at}.{name}", rule, schema)
            for name, inner, rule, _ in keys
            if name in value
        }
        for name, inner, rule, _ in _keys(kind):
            if rule.rest:
                return kind(**found, **{name: self.value(inner, others, at, rule, schema)})
        if others and not self.unknown_keys:
            known = ", ".join(names)
            _refuse(f"an object without the keys {', '.join(others)}; it has {known}", at)
        return kind(**found)

    def items(self, kinds: Any, value: Any, at: str, rule: Rule, schema: int) -> Any:
        if not isinstance(value, (list, tuple)):
            _refuse("a list", at, value)
        if kinds[-1] is Ellipsis:
            kinds = kinds[:1] * len(value)
        elif len(kinds) != len(value):
            _refuse(f"a list of {len(kinds)}", at, value)
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(self.value(k, v, f"{at}[{i}]", rule, schema) for i, (k, v) in pairs)

    def one_of(self, kinds: Any, value: Any, at: str, rule: Rule, schema: int) -> Any:
        if value is None and type(None) in kinds:
            return None
        kinds = [kind for kind in kinds if kind is not type(None)]
        for kind in kinds[:-1]:
            try:
                return self.value(kind, value, at, rule, schema)
            except Malformed:
                if _is_tagged(kind, value):
                    raise
        return self.value(kinds[-1], value, at, rule, schema)


def _schema(kind: Any, value: Mapping[str, Any], outer: int) -> int:
    """The schema of a document: that of its own key, else that of the document around it."""
    if not any(name == "schema" for name, *_ in _keys(kind)):
        return outer
    own = value.get("schema")
    return own if isinstance(own, int) and not isinstance(own, bool) else outer


def _is_tagged(kind: Any, value: Any) -> bool:
    """Whether the value names this dataclass of a union, by a key that is a Literal."""
    if not is_dataclass(kind) or not isinstance(value, dict):
        return False
    tags = [(n, get_args(k)) for n, k, *_ in _keys(kind) if get_origin(k) is Literal]
    return bool(tags) and all(value.get(name) in choices for name, choices in tags)


def _plain(kind: Any, value: Any, at: str, rule: Rule) -> Any:
    """A text, a number, true or false."""
    right = isinstance(value, (int, float) if kind is float else kind)
    if not right or (isinstance(value, bool) and kind is not bool):
        _refuse(KINDS.get(kind, str(kind)), at, value)
    if kind in (int, float) and not -LARGEST < value < LARGEST:  # also NaN
        _refuse("a finite number below 2^63", at, value)
    if rule.choices:
        _chosen(value, rule.choices, at)
    if rule.at_least is not None and value < rule.at_least:
        _refuse(f"at least {rule.at_least:g}", at, value)
    if rule.at_most is not None and value > rule.at_most:
        _refuse(f"at most {rule.at_most:g}", at, value)
    if rule.pattern and not re.fullmatch(rule.pattern, value):
        _refuse(f"a text that matches {rule.pattern}", at, value)
    if rule.check and not rule.check[0](value):
        _refuse(rule.check[1], at, value)
    return float(value) if kind is float else value


def _chosen(value: Any, choices: tuple[Any, ...], at: str) -> Any:
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        _refuse(f"one of {', '.join(map(str, choices))}", at, value)
    return value


def _refuse(wanted: str, at: str, value: Any = MISSING) -> Any:
    shown = "" if value is MISSING else f", not {_shortened(value)}"
    raise Malformed(f"{_printable(at.lstrip('.')) or 'it'} must be {wanted}{shown}")


def _printable(at: str) -> str:
    """A path as a message shows it: its keys may be those of a host."""
    text = at if at.isprintable() else repr(at)
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}..."


def _shortened(value: Any) -> str:
    """A value as a message shows it: one line of at most SHOWN characters."""
    text = repr(value) if not isinstance(value, int) or abs(value) < LARGEST else "a larger number"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
