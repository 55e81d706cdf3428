"""Rules: what fits as a text and as a value, and what a message says of the rest."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from railhead.documents.rule import Rule, Unfit, nearest

TWO = Rule(int, at_least=1, at_most=8)
HALF_OPEN = Rule(float, at_least=0, below=1)
OPEN = Rule(float, above=0, at_most=3)
HOURS = Rule(float, at_least=0.5, at_most=48, unit="h")
NONE = Rule(float, at_least=0, empty="none")
CHOICE = Rule(choices=("auto", "2", "3"))
NUMBERS = Rule(int, choices=(2, 3))
SWITCH = Rule(bool)
NAME = Rule(pattern="[a-z]+", words="a name")
EVEN = Rule(int, check=(lambda n: n % 2 == 0, "an even number"))

TEXTS: list[tuple[Rule, dict[str, Any], list[str]]] = [  # fits with its value, does not fit
    (
        TWO,
        {"1": 1, "8": 8},
        ["0", "9", "-1", "1.0", "1_0", "+1", " 1", "1e0", "٣", "9" * 5000, "", "x", "None"],
    ),
    (HALF_OPEN, {"0": 0.0, "0.999": 0.999, "1e-3": 0.001}, ["1", "-0.1", "nan", "inf", "x", "5m"]),
    (OPEN, {"3": 3.0, "0.1": 0.1}, ["0", "3.1", "-1", "0_1", "0x1"]),
    (
        HOURS,
        {"0.5": 0.5, "48": 48.0, "90m": 1.5, "1800s": 0.5, "1.5 h": 1.5, "2d": 48.0},
        ["49h", "3d", "m", "-1h", "1w", "xm", "0.4", "nan"],
    ),
    (NONE, {"none": None, "None": None, "0": 0.0}, ["-1", "nan", "no"]),
    (CHOICE, {"auto": "auto", "2": "2"}, ["4", "", "AUTO"]),
    (NUMBERS, {"2": 2, "3": 3}, ["4", "true"]),
    (SWITCH, {"true": True, "False": False}, ["yes", "1", ""]),
    (NAME, {"ab": "ab"}, ["Ab", "ab1", "", "ab\n"]),
    (EVEN, {"4": 4}, ["3"]),
    (Rule(), {"": "", "x y": "x y"}, []),
]
VALUES: list[tuple[Rule, list[Any], list[Any]]] = [  # fits, does not fit
    (TWO, [1, 8], [0, 9, True, 1.0, "1", None, 2**63]),
    (HALF_OPEN, [0, 0.5], [1.0, -0.1, float("nan"), float("inf"), True, "0.5", None]),
    (Rule(float), [0, -1.5], [float("nan"), 2.0**63, -(2.0**63)]),
    (NONE, [None, 1.5], ["none", -1.0]),
    (CHOICE, ["2"], [2, "4", None]),
    (NUMBERS, [2], [True, "2", 2.0]),
    (SWITCH, [True], [1, "true", None]),
    (NAME, ["ab"], ["A", 1]),
]


@pytest.mark.parametrize(
    ("rule", "fit", "unfit"), TEXTS, ids=lambda value: getattr(value, "expected", "")
)
def test_a_text_fits_within_its_bounds(rule: Rule, fit: dict[str, Any], unfit: list[str]) -> None:
    for text, value in fit.items():
        parsed = rule.parsed(text)
        assert (parsed, type(parsed)) == (value, type(value))
    for text in unfit:
        with pytest.raises(Unfit):
            rule.parsed(text)


@pytest.mark.parametrize(
    ("rule", "fit", "unfit"), VALUES, ids=lambda value: getattr(value, "expected", "")
)
def test_a_value_fits_by_its_type_and_bounds(rule: Rule, fit: list[Any], unfit: list[Any]) -> None:
    read = rule.reader()
    for value in fit:
        assert read(value) == value and (rule.kind is not float or type(read(value)) is not int)
    for value in unfit:
        with pytest.raises(Unfit):
            read(value)


@pytest.mark.parametrize(
    ("rule", "text", "message"),
    [
        (TWO, "9", "n: 9 is not a whole number from 1 to 8"),
        (TWO, "x", "n: 'x' is not a whole number from 1 to 8"),
        (Rule(int, at_least=1), "0", "n: 0 is not a whole number of at least 1"),
        (HALF_OPEN, "1", "n: 1 is not a number of at least 0 and below 1"),
        (OPEN, "0", "n: 0 is not a number above 0 and at most 3"),
        (HOURS, "0", "n: 0 is not a number from 0.5 to 48, or a duration such as 90s, 30m or 2h"),
        (NONE, "x", "n: 'x' is not a number of at least 0 or none"),
        (NUMBERS, "4", "n: 4 is not one of 2, 3"),
        (CHOICE, "auto2", "n: 'auto2' is not one of auto, 2, 3; did you mean auto?"),
        (SWITCH, "yes", "n: 'yes' is not true or false"),
        (NAME, "A", "n: 'A' is not a name"),
        (Rule(pattern="a+"), "b", "n: 'b' is not a text that matches a+"),
        (EVEN, "3", "n: 3 is not an even number"),
        (Rule(float), "1e19", "n: 1e+19 is not a number, finite and below 2^63"),
        (Rule(int), "x" * 200, f"n: '{'x' * 99}... is not a whole number"),
    ],
)
def test_a_message_has_the_name_the_value_and_what_fits(
    rule: Rule, text: str, message: str
) -> None:
    with pytest.raises(Unfit) as unfit:
        rule.parsed(text)
    assert unfit.value.of("n") == message


def test_what_a_host_sends_is_refused_without_a_search_for_what_it_meant() -> None:
    with pytest.raises(Unfit) as unfit, pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "difflib", None)
        CHOICE.reader()("a" * 10**6)
    assert len(str(unfit.value)) < 200


def test_the_nearest_choice_is_near() -> None:
    assert nearest("mirored", ["horovod", "mirrored"]) == "mirrored"
    assert nearest("x", ["horovod"]) == ""
