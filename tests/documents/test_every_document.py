"""Properties of every document: what is written can be read, and damage is refused or harmless."""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import given
from hypothesis import strategies as st
from properties import bounded

import railhead.documents
from railhead.documents.agent.request import Bounds
from railhead.documents.cluster import DECIMAL
from railhead.documents.codec import Malformed, _Record, decode, encode
from railhead.documents.names import NAME
from railhead.documents.rule import KINDS, Rule
from railhead.documents.runs.manifest import PATH
from railhead.documents.runs.result import TIME
from railhead.documents.runs.run import RunDocument

Json = st.SearchStrategy[Any]
NOT_DOCUMENTS = ("codec", "lenient", "options", "uri", "clouds", "machine_types", "names", "rule")
MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(railhead.documents.__path__, "railhead.documents.")
    if module.name.split(".")[2] not in NOT_DOCUMENTS
]
DOCUMENTS = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
    if kind is not Bounds  # a constant
]
TEXTS = st.text("aé/.\n0-", max_size=6)
LEAVES = st.sampled_from([None, True, False, 0, -1, 7, 2**63, 0.5, float("nan"), "", "a", "7"])
ANY = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(TEXTS, LEAVES, max_size=2)
CHECKED: list[tuple[Any, Json]] = [
    (NAME, st.sampled_from(["a", "run-1", "A_b.c", "0"])),
    (TIME, st.just("2026-11-22T10:22:43Z")),
    (PATH, st.sampled_from(["results/a", "work/a b/é", "x"])),
]
PATTERNS = {
    r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}": "model-1",
    r"[0-9a-f]{64}": "0" * 64,
    r"[0-9]{1,18}": "12",
    r"-?[0-9]{1,18}": "-1",
    r"/[^\0]*": "/home/ann/results",
    r"[0-9TZ:-]+": "2026-11-22T10:22:43Z",
    DECIMAL: "0.526",
}


def values(kind: Any, rule: Rule) -> Json:
    """JSON values that fit a type and a rule of a key."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or origin is Annotated:
        return ANY
    if is_dataclass(kind):
        return objects(kind)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values(item, rule) for item in inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(values(inner[0], rule), min_size=1, max_size=2)
    if origin is tuple:
        return st.tuples(*(values(item, rule) for item in inner)).map(list)
    if origin is not None:
        return st.dictionaries(TEXTS, values(inner[1], rule), max_size=2)
    return st.none() if kind is type(None) else plain(kind, rule)


def plain(kind: Any, rule: Rule) -> Json:
    """A text, a number, true or false, within a rule."""
    assert kind in KINDS
    if rule.choices:
        return st.sampled_from(rule.choices)
    for check, strategy in CHECKED:
        if rule.check == check:
            return strategy
    if rule.pattern:
        return st.just(PATTERNS[rule.pattern])
    if rule.above is not None:
        return st.sampled_from([rule.above + 1e-9, rule.above + 1])
    low = rule.at_least if rule.at_least is not None else -(2**62)
    high = rule.at_most if rule.at_most is not None else 2**62
    strategies: dict[Any, Json] = {
        str: TEXTS,
        bool: st.booleans(),
        int: st.integers(int(low), int(high)),
        float: st.integers(int(low), int(high)) | st.floats(low, high),
    }
    return strategies[kind]


def objects(kind: Any) -> Json:
    """Objects that are this dataclass; keys with a default may be missing."""
    keys = _Record(kind, True).keys
    needed = {
        name: values(key.kind, key.declared.rule) for name, key in keys.items() if not key.optional
    }
    others = {
        name: values(key.kind, key.declared.rule) for name, key in keys.items() if key.optional
    }
    if "schema" in others:  # of which some keys depend
        needed["schema"] = others.pop("schema")
    newer = {name for name, key in keys.items() if key.declared.since}
    needed |= {name: others.pop(name) for name in newer}
    documents = st.fixed_dictionaries(needed, optional=others)
    # A rule of several keys: hosts without slots are for elastic runs.
    return documents.filter(_has_slots) if kind is RunDocument else documents


def _has_slots(run: dict[str, Any]) -> bool:
    return all(host["slots"] for host in run["hosts"])


KINDS_AND_VALUES = st.sampled_from(DOCUMENTS).flatmap(
    lambda kind: st.tuples(st.just(kind), objects(kind))
)


def test_the_documents_are_found() -> None:
    assert len(DOCUMENTS) > 110


@bounded(150)
@given(KINDS_AND_VALUES)
def test_what_is_written_is_read_as_the_same_document(case: tuple[type[Any], Any]) -> None:
    kind, value = case
    written = json.dumps(encode(decode(kind, value)))
    assert json.dumps(encode(decode(kind, json.loads(written)))) == written


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """The value with another one somewhere inside, where the numbers lead."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return new
    names: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    name = names[path[0] % len(names)]
    changed = value.copy()
    changed[name] = replaced(value[name], path[1:], new)
    return changed


@bounded(150)
@given(KINDS_AND_VALUES, st.lists(st.integers(0, 9), max_size=4), ANY)
def test_damage_is_refused_as_malformed_or_is_harmless(
    case: tuple[type[Any], Any], path: list[int], new: Any
) -> None:
    kind, value = case
    try:
        document = decode(kind, replaced(value, path, new))
    except Malformed as error:
        assert str(error).isprintable() and len(str(error)) <= 600
        return
    json.dumps(encode(document))
