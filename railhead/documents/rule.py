"""What a value must be, declared once: of an option, a key of a document, a setting of the training
or a key of a stack. A rule reads values and texts, and says what fits.

Standard library only (so not pydantic), because hosts have no other packages. Python 3.10.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from railhead.documents.lazy import MISSING, dataclass

LARGEST = 2**63  # of a number, exclusive
LONGEST_SHOWN = 100  # characters of a wrong value in a message
KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
SWITCH = {"true": True, "false": False}
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}  # of a duration


class Malformed(ValueError):
    """A value that does not fit; the message has the path of the key."""


class Unfit(Malformed):
    """A value does not fit: the error has what it must be. Containers of the value put their keys
    before `path`."""

    def __init__(self, expected: str, value: Any = MISSING, choices: Iterable[Any] = ()) -> None:
        self.expected, self.value, self.choices, self.path = expected, value, choices, ""

    @property
    def near(self) -> str:
        """The choice that was probably meant; empty if none is similar."""
        return nearest(self.value, self.choices) if self.choices else ""

    def __str__(self) -> str:
        shown = "" if self.value is MISSING else f", not {shortened(self.value, 60)}"
        return f"{printable(self.path.lstrip('.')) or 'it'} must be {self.expected}{shown}"

    def of(self, name: str) -> str:
        """The message for a person who has typed the value: name, value, what fits."""
        hint = f"; did you mean {near}?" if (near := self.near) else ""
        return f"{name}: {shortened(self.value)} is not {self.expected}{hint}"


@dataclass(frozen=True)
class Rule:
    """What a value must be.

    Args:
        kind: str, int, float or bool.
        at_least, at_most: inclusive bounds of a number. above, below: exclusive ones.
        pattern: a regular expression that the whole text matches.
        check: whether a value fits, and what fits in words.
        words: what fits, in a message: "a Linux user name". Default: from the other rules.
        unit: of a number without one: `s`, `m`, `h` or `d`. A text may be a duration: 90s, 30m, 2h.
        empty: the text that stands for None, which fits, too.
    """

    kind: Any = str
    choices: tuple[Any, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    pattern: str = ""
    check: tuple[Callable[[Any], Any], str] | None = None
    words: str = ""
    unit: str = ""
    empty: str = ""
    largest: float = LARGEST  # exclusive; -largest is the lower limit

    @property
    def expected(self) -> str:
        """What fits, as a message says it: `a whole number from 1 to 64`."""
        if words := self.words or (self.check or ("", ""))[1]:
            return words
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        kind = KINDS.get(self.kind, str(self.kind))
        if self.pattern:
            return f"{kind} that matches {self.pattern}"
        also = ", or a duration such as 90s, 30m or 2h" if self.unit else ""
        or_none = f" or {self.empty}" if self.empty else ""
        of = "of " if self.bounds.startswith("at least") else ""
        return f"{kind} {of}{self.bounds}".rstrip() + also + or_none

    @property
    def bounds(self) -> str:
        """The bounds of a number; empty without any."""
        if self.at_least is not None and self.at_most is not None:
            return f"from {number_text(self.at_least)} to {number_text(self.at_most)}"
        limits = {"at least": self.at_least, "above": self.above}
        limits |= {"at most": self.at_most, "below": self.below}
        texts = (f"{word} {number_text(n)}" for word, n in limits.items() if n is not None)
        return " and ".join(texts)

    def reader(self) -> Callable[[Any], Any]:
        """A function that returns a value of JSON or Python if it fits, and raises Unfit otherwise.
        A whole number fits where a float is expected: JSON may drop the .0."""
        right = (int, float) if self.kind is float else self.kind
        is_number, is_float, checks = (
            self.kind in (int, float),
            self.kind is float,
            [*self.checks()],
        )

        def read(value: Any) -> Any:
            if value is None and self.empty:
                return None
            if not isinstance(value, right) or (isinstance(value, bool) and is_number):
                raise Unfit(self.expected, value)
            if is_number and not -self.largest < value < self.largest:  # also NaN
                limit = "" if self.largest == math.inf else " and below 2^63"
                raise Unfit(f"{self.expected}, finite{limit}", value)
            for fits in checks:
                if not fits(value):
                    raise Unfit(self.expected, value, self.choices)
            return float(value) if is_float else value

        return read

    def checks(self) -> Iterator[Callable[[Any], Any]]:
        """Predicates of a value of this kind."""
        if self.choices:
            yield partial(_is_one, self.choices)
        bounds = ((operator.le, self.at_least), (operator.ge, self.at_most))
        for fits, bound in (*bounds, (operator.lt, self.above), (operator.gt, self.below)):
            if bound is not None:
                yield partial(fits, bound)
        if self.pattern:
            yield re.compile(self.pattern).fullmatch
        if self.check:
            yield self.check[0]

    def parsed(self, text: str) -> Any:
        """The value of a typed text; Unfit if it does not fit."""
        value: Any = text
        if self.empty and text.lower() == self.empty:
            value = None
        elif self.kind is bool:
            value = SWITCH.get(text.lower(), text)
        elif self.kind is int and re.fullmatch(r"-?[0-9]{1,20}", text):  # int() of more takes long
            value = int(text)
        elif self.kind is float:
            duration = re.fullmatch(r"(.*\d) ?([smhd])", text) if self.unit else None
            number = as_number(duration[1] if duration else text)
            factor = SECONDS[duration[2]] / SECONDS[self.unit] if duration else 1
            value = text if math.isnan(number) else number * factor
        return self.reader()(value)


def as_number(value: Any) -> float:
    """A number as it is printed, so that 0.1 of 32 bits is 0.1; NaN if it is not a number."""
    try:
        return math.nan if "_" in (text := str(value)) else float(text)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def number_text(value: Any) -> str:
    """A number as a person types it, with all digits: 3 for 3.0; other values as they are."""
    if isinstance(value, float) and float(f"{value:.12g}") == value:
        return f"{value:.12g}"
    return str(value)


def nearest(text: Any, choices: Iterable[Any], cutoff: float = 0.6) -> str:
    """The choice most similar to a text; empty if none is similar."""
    import difflib  # loaded late: hosts need none

    near = difflib.get_close_matches(str(text), map(str, choices), 1, cutoff)
    return near[0] if near else ""


def shortened(value: Any, longest: int = LONGEST_SHOWN) -> str:
    """A value as a message shows it, in one line: a number as a person types it, other values as
    Python writes them."""
    try:
        shown = number_text(value) if isinstance(value, float) else repr(value)
    except ValueError:  # of an integer with thousands of digits
        shown = "an integer that is too long"
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def _is_one(choices: tuple[Any, ...], value: Any) -> bool:
    return any(value == choice and type(value) is type(choice) for choice in choices)


def printable(path: str) -> str:
    """A path as a message shows it: its keys may come from a host."""
    text = path if path.isprintable() else repr(path)
    return text if len(text) <= 120 else f"{text[:120]}..."
