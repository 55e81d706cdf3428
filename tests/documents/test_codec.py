"""The codec of documents: what it accepts, what it refuses, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from railhead.documents.codec import Malformed, decode, encode, key


@dataclass(frozen=True)
class Gpu:
    type: str
    count: int = key(at_least=1, at_most=16)


@dataclass(frozen=True)
class Host:
    name: str
    port: int | None
    gpu: Gpu | None = key(None, omit=True)
    source: str = key("console", choices={"console": "read", "injected": "written"})
    added: str = key("before", since=2)


@dataclass(frozen=True)
class Script:
    kind: Literal["script"]
    path: str = key(pattern=r"[a-z.]+")


@dataclass(frozen=True)
class Training:
    kind: Literal["training", "evaluation"]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Cluster:
    schema: int
    hosts: tuple[Host, ...]
    program: Script | Training
    price: float = 0.0
    pairs: tuple[tuple[str, int], ...] = ()
    bounds: Mapping[str, float] = key({})


HOST = {"name": "a", "port": 22, "source": "console", "added": "now"}
DOCUMENT: dict[str, Any] = {
    "schema": 2,
    "hosts": [{**HOST, "gpu": {"type": "T4", "count": 2}}, {**HOST, "port": None}],
    "program": {"kind": "training", "settings": {"epochs": 3}},
    "price": 1.5,
    "pairs": [["a", 1]],
    "bounds": {"accuracy": 0.9},
}


def changed(path: str, value: Any) -> Any:
    """The document with another value at a path; DELETED removes the key."""
    document: Any = json.loads(json.dumps(DOCUMENT))
    node = document
    *folders, last = [int(k) if k.isdigit() else k for k in path.split(".")]
    for folder in folders:
        node = node[folder]
    if value is DELETED:
        del node[last]
    else:
        node[last] = value
    return document


DELETED = object()


def test_what_is_written_is_what_was_read() -> None:
    assert encode(decode(Cluster, DOCUMENT)) == DOCUMENT


def test_values_are_of_the_types_of_the_dataclass() -> None:
    cluster = decode(Cluster, changed("price", 2))
    assert isinstance(cluster.program, Training)
    assert cluster.hosts[0].gpu == Gpu("T4", 2)
    assert cluster.pairs == (("a", 1),)
    assert isinstance(cluster.price, float)


def test_a_key_of_a_newer_schema_has_its_default_in_an_older_document() -> None:
    older = changed("schema", 1)
    del older["hosts"][0]["added"]
    assert decode(Cluster, older).hosts[0].added == "before"


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("hosts.0.port", "22", "hosts[0].port"),
        ("hosts.0.port", True, "hosts[0].port"),
        ("hosts.0.port", 2**63, "hosts[0].port"),
        ("hosts.0.port", 2.0, "hosts[0].port"),
        ("hosts.1.name", DELETED, "hosts[1]"),
        ("hosts.1.added", DELETED, "hosts[1]"),
        ("hosts.1.source", "guess", "hosts[1].source"),
        ("hosts.1", [], "hosts[1]"),
        ("hosts", {}, "hosts"),
        ("hosts.0.gpu.count", 0, "hosts[0].gpu.count"),
        ("hosts.0.gpu.count", 17, "hosts[0].gpu.count"),
        ("price", float("nan"), "price"),
        ("price", float("inf"), "price"),
        ("price", None, "price"),
        ("program", {"kind": "script", "path": "A"}, "program.path"),
        ("program", {"kind": "other"}, "program"),
        ("pairs.0", ["a"], "pairs[0]"),
        ("pairs.0.1", "b", "pairs[0][1]"),
        ("bounds.accuracy", "much", "bounds.accuracy"),
        ("schema", DELETED, "it"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(path: str, value: Any, place: str) -> None:
    with pytest.raises(Malformed) as refused:
        decode(Cluster, changed(path, value), what="cluster.json")
    assert str(refused.value).startswith(f"cluster.json: {place}")


def test_unknown_keys_are_refused_where_the_caller_wants_it() -> None:
    document = changed("hosts.0.colour", "red")
    assert decode(Cluster, document).hosts[0].name == "a"
    with pytest.raises(KeyError, match="colour"):
        decode(Cluster, document, error=KeyError, unknown_keys=False)


@dataclass(frozen=True)
class Open:
    others: Mapping[str, Any] = key({}, rest=True)


def test_what_a_program_wrote_may_be_deeper_than_the_stack_of_python() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5000):
        inner["a"] = inner = {}
    assert encode(Open({"a": deep})) == {"a": deep}


def test_a_default_that_is_a_mapping_is_not_shared() -> None:
    first, second = (decode(Cluster, changed("bounds", DELETED)) for _ in range(2))
    assert first.bounds == {} and first.bounds is not second.bounds


@dataclass(frozen=True)
class Figures:
    class_: str
    length: Annotated[int, len] = 0
    others: Mapping[str, Any] = key({}, rest=True)


def test_other_keys_keywords_and_values_that_a_function_reads() -> None:
    figures = decode(Figures, {"z": [1], "class": "a", "length": "abc", "b": None})
    assert figures == Figures("a", 3, {"z": [1], "b": None})
    assert [*figures.others] == ["z", "b"], "in their order"
    assert encode(figures) == {"class": "a", "length": 3, "z": [1], "b": None}


def test_a_key_of_a_mapping_cannot_forge_a_message() -> None:
    with pytest.raises(Malformed) as refused:
        decode(Cluster, changed("bounds", {"\x1b[31m\n" + "x" * 10_000: "a"}))
    message = str(refused.value)
    assert message.isprintable() and len(message) < 700


@dataclass(frozen=True)
class Instance:
    state: str = key("unknown", path="name")
    zone: str = key("", path="place.zone")
    addresses: tuple[str, ...] = key((), path="ip")


@pytest.mark.parametrize(
    ("document", "instance"),
    [
        ({"state": {"name": "on"}, "zone": {"place": {"zone": "a"}}}, Instance("on", "a")),
        ({"addresses": [{"ip": "a"}, {}, {"ip": "b"}]}, Instance(addresses=("a", "b"))),
        ({"state": {}, "zone": {"place": {}}, "addresses": []}, Instance()),
        ({"state": {"name": 1}}, "state must be a text"),
        ({"zone": {"place": "a"}}, "zone must be an object"),
        ({"addresses": ["a"]}, "addresses must be an object"),
    ],
)
def test_a_path_leads_into_an_object_or_those_of_a_list(
    document: dict[str, Any], instance: Instance | str
) -> None:
    for path, value in (("", document), ("one", {"one": document})):
        if isinstance(instance, Instance):
            assert decode(Instance, value, path=path) == instance
            continue
        with pytest.raises(Malformed, match=instance):
            decode(Instance, value, path=path)
    with pytest.raises(Malformed, match="it must be"):
        decode(Instance, {"two": document}, path="one")
