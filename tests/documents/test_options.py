"""Options: what is typed and what Python gives become the same values, within their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from railhead.documents.options import hosts, runs, serving
from railhead.documents.options.option import (
    chosen,
    described,
    from_texts,
    from_values,
    only,
    option,
    options_in,
    plain,
    typed_texts,
)


@dataclass(frozen=True)
class Group:
    name: str | None = option(None, "a name")
    ranks: int | None = option(None, "ranks", at_least=1, at_most=8)
    hours: float = option(1.0, "hours", at_least=0.5, at_most=2, unit="h")
    keep: float | None = option(None, "minutes", at_least=0, at_most=90, unit="m")
    wait: bool = option(True, "return at once", flag="detach")
    secrets: tuple[str, ...] = option((), "secrets", flag="secret")
    counts: tuple[int, ...] = option((), "counts", separator=",", at_least=1, at_most=9)
    settings: Mapping[str, str] = option({}, "settings", flag="set", form="name=value")
    minimum: Mapping[str, float] = option({}, "least", flag="min", each_once=True)
    values: Mapping[str, tuple[str, ...]] = option({}, "values", separator=",")
    keras: int | None = option(None, "2 or 3", choices=(2, 3))
    args: str | None = option(None, "arguments", joined=" ")
    hosts: str | None = option(None, "hosts", joined=",")


SAME: list[tuple[str, Any, Any, Any]] = [  # name, as typed, from Python, value
    ("name", "x", Path("x"), "x"),
    ("ranks", "8", 8, 8),
    ("hours", "0.5", 0.5, 0.5),
    ("hours", "2", 2, 2.0),
    ("hours", "90m", "5400s", 1.5),
    ("keep", "90s", "1.5 m", 1.5),
    ("keep", "1h", 60, 60.0),
    ("wait", True, False, False),
    ("secrets", ["A", "B"], ("A", "B"), ("A", "B")),
    ("counts", "1, 2,4", [1, 2, 4], (1, 2, 4)),
    ("counts", "1,2", ["1", "2"], (1, 2)),
    ("settings", ["a=1", "b=x=y"], {"a": 1, "b": "x=y"}, {"a": "1", "b": "x=y"}),
    ("settings", ["a=1", "a=2"], {"a": 2}, {"a": "2"}),
    ("minimum", ["f1=0.5"], {"f1": 0.5}, {"f1": 0.5}),
    ("values", ["lr=0.1, 0.2,,0.1"], {"lr": [0.1, 0.2]}, {"lr": ("0.1", "0.2")}),
    ("keras", "3", 3, 3),
    ("args", "--a 'b c'", {"a": "b c"}, "--a 'b c'"),
    ("args", "--a 'b c'", ["--a", "b c"], "--a 'b c'"),
    ("hosts", "a,b", ["a", "b"], "a,b"),
]


@pytest.mark.parametrize(("name", "typed", "python", "value"), SAME)
def test_a_typed_value_and_one_of_python_are_the_same(
    name: str, typed: Any, python: Any, value: Any
) -> None:
    assert getattr(from_texts(Group, {name: typed}, ValueError), name) == value
    assert getattr(from_values(Group, {name: python}, ValueError), name) == value


@pytest.mark.parametrize("name", [option.name for option in options_in(Group)])
def test_what_is_missing_keeps_its_default(name: str) -> None:
    missing: Any = False if name == "wait" else None
    assert from_texts(Group, {name: missing}, ValueError) == Group()
    assert from_values(Group, {name: None}, ValueError) == Group()


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("ranks", "0"), ("hours", "3h"), ("counts", "0,1"), ("counts", "a"), ("settings", ["a"]),
        ("settings", ["=1"]),
        ("minimum", ["a=x"]), ("minimum", ["a=inf"]), ("minimum", ["a=1", "a=2"]),
        ("values", ["a="]), ("values", ["a=,"]), ("keras", "4"), ("keras", ""),
    ],
)  # fmt: skip
def test_a_text_that_does_not_fit_is_refused_with_its_option(name: str, typed: Any) -> None:
    flag = next(option.flag for option in options_in(Group) if option.name == name)
    with pytest.raises(ValueError, match=f"--{flag}"):
        from_texts(Group, {name: typed}, ValueError)


HUGE = 10**5000  # Python does not write such a number as text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ranks", True), ("ranks", 1.5), ("ranks", HUGE), ("name", "a\0b"), ("name", HUGE),
        ("secrets", "AB"), ("secrets", b"AB"), ("secrets", 5), ("settings", "a=1"),
        ("settings", 5), ("minimum", {"a": "x"}), ("minimum", {"a": float("nan")}),
        ("values", {"a": 3}), ("values", {"a": b"ab"}), ("values", {"a": [None]}),
        ("minimum", {"a": True}), ("minimum", {"a": 1e19}), ("hosts", [None]),
        ("wait", "no"), ("hours", "3"), ("args", 5), ("counts", [0]), ("settings", {"a": "\0"}),
    ],
    ids=lambda value: "huge" if value is HUGE else None,
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError):
        from_values(Group, {name: value}, ValueError)


GROUPS = [
    group
    for module in (hosts, runs, serving)
    for group in vars(module).values()
    if isinstance(group, type) and group.__module__ == module.__name__
]


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_has_help_and_a_default_within_its_rules(group: type[Any]) -> None:
    options = options_in(group)
    values: dict[str, Any] = {
        option.name: 1 if option.kind == "int" else "x" for option in options if option.required
    }
    values |= {option.name: option.default for option in options if not option.required}
    if group is hosts.TargetOptions:
        values["hosts"] = ["a", "b"]
    assert all(option.rule.text and len(plain(described(option))) <= 170 for option in options)
    assert from_values(group, values, ValueError) is not None


def test_a_task_takes_the_options_that_it_names_and_may_say_something_else_of_them() -> None:
    options = chosen(Group, only("secrets", "hours", keep="how long"))
    assert [described(option) for option in options] == [
        "hours; from 0.5 to 2 hours, or as 30m; default: `1`",
        "how long; from 0 to 90 minutes, or as 30m",
        "secrets; repeatable",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`--set`: a [preset](x.md#y) of values: [Presets](z.md)", "--set: a preset of values"),
        ("needs it ([more](#m)); see [a](b). Then [c](d)", "needs it (more); see a. Then c"),
        (r"`A\|B` or [which hosts](#hosts); default: x", "A|B or which hosts; default: x"),
        ("[`fab deploy`](#d) does", "fab deploy does"),
    ],
)
def test_a_terminal_shows_no_markdown_and_no_pointer(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (0.9712345, ["0.9712345"]),
        (3.0, ["3"]),
        (2, ["2"]),
        (True, []),
        (None, []),
        (("A", "B"), ["A", "B"]),
        ({"f1": 0.5, "n": "x=y"}, ["f1=0.5", "n=x=y"]),
    ],
)
def test_a_value_is_typed_with_all_its_digits(value: Any, texts: list[str]) -> None:
    assert typed_texts(value) == texts
