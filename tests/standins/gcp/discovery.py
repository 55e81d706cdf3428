"""Holds requests to Google's own descriptions of its APIs.

compute, storage and iam: the discovery documents that google-api-python-client ships.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import googleapiclient  # type: ignore[import-untyped]

DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "any": (object,),
}
VERSIONS = {"bigquery": "v2", "orgpolicy": "v2"}  # of the APIs that have no v1


class Wrong(Exception):
    """A request that the API would refuse; the message has the method and the place in it."""


@dataclass(frozen=True)
class Request:
    """One call of a REST method: its id, the parameters of its address, its body."""

    method: str
    params: Mapping[str, str]
    body: Mapping[str, Any]


def find(api: str, verb: str, target: str, body: Any) -> Request:
    """The request that a call is, at a path with a query; Wrong where the API has none like it, or
    forbids it."""
    path, _, query = target.partition("?")
    methods = document(api).methods
    ids = [id_ for id_, method in methods.items() if method["httpMethod"] == verb]
    matching = [id_ for id_ in ids if _shape(api, id_, flat=True).fullmatch(path)]
    if not matching:
        raise Wrong(f"{api} has no call {verb} {path}")
    # A project may be named example.com:p-1, and a method be a colon with a word.
    id_ = max(
        matching,
        key=lambda id_: len(
            re.sub(r"\{.*?\}", "", methods[id_].get("flatPath", methods[id_]["path"]))
        ),
    )
    matched = _shape(api, id_).fullmatch(path)
    assert matched, path
    params = {name: unquote(value) for name, value in matched.groupdict().items()}
    options = {name: "\n".join(values) for name, values in parse_qs(query).items()}
    request = Request(id_, {**options, **params}, body or {})
    check(request)
    return request


@functools.cache  # `re` keeps 512 patterns
def _shape(api: str, id_: str, *, flat: bool = False) -> re.Pattern[str]:
    """The paths of a method, with the names of their parameters; `flat`: each is one part of it."""
    method = document(api).methods[id_]
    path = document(api).base + (method.get("flatPath", method["path"]) if flat else method["path"])
    whole = re.sub(r"\\{\\\+(\w+)\\}", r"(?P<\1>.+)", re.escape(path))
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>(?:[^/:]+[.][^/:]+:)?[^/:]+)", whole))


def check(request: Request) -> None:
    """Raise Wrong for the first thing in the request that the API's description forbids."""
    api = document(request.method.split(".")[0])
    method = api.methods.get(request.method)
    if method is None:
        raise Wrong(f"{request.method}: there is no such method")
    _check_params(request, {**api.parameters, **method["parameters"]})
    if "request" in method:
        _Body(api, request.method).check(request.body, method["request"], request.method)
    elif request.body:
        raise Wrong(f"{request.method} has no body")


@dataclass(frozen=True)
class Document:
    """The schemas and the methods of one API, by name and id; the parameters that all have, and
    where its paths begin."""

    schemas: Mapping[str, Any]
    methods: Mapping[str, Any]
    parameters: Mapping[str, Any]
    base: str


@functools.cache
def document(name: str) -> Document:
    """The discovery document of an API's first version; kept, for reading takes a while."""
    version = VERSIONS.get(name, "v1")
    output = json.loads((DOCUMENTS / f"{name}.{version}.json").read_text())
    methods, base = dict(_every_method(output)), output["servicePath"]
    return Document(output["schemas"], methods, output["parameters"], base)


def _every_method(output: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for method in output.get("methods", {}).values():
        yield method["id"], method
    for resource in output.get("resources", {}).values():
        yield from _every_method(resource)


def _check_params(request: Request, known: Mapping[str, Any]) -> None:
    missing = [name for name, rule in known.items() if rule.get("required")]
    for name in missing:
        if name not in request.params:
            raise Wrong(f"{request.method}: the parameter {name} is missing")
    for name, value in request.params.items():
        if name not in known:
            raise Wrong(f"{request.method}: there is no parameter {name}")
        _check_text(value, known[name], f"{request.method}({name})")


class _Body:
    """Checks a body for one method, by its schema."""

    def __init__(self, api: Document, method: str) -> None:
        self.schemas, self.method = api.schemas, method

    def check(self, value: Any, schema: Mapping[str, Any], where: str) -> None:
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema["type"]
        right = isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool)
        if not right:
            raise Wrong(f"{where}: {value!r} is not of type {kind}")
        if kind == "object":
            self._object(value, schema, where)
        elif kind == "array":
            for number, each in enumerate(value):
                self.check(each, schema["items"], f"{where}[{number}]")
        elif kind == "string":
            _check_text(value, schema, where)
        elif schema.get("format") in RANGES:
            _check_range(value, schema["format"], where)

    def _object(self, value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> None:
        known = schema.get("properties", {})
        for name, rule in known.items():
            required = rule.get("annotations", {}).get("required", ())
            if self.method in required and name not in value:
                raise Wrong(f"{where}.{name} is missing")
        for name, inner in value.items():
            rule = known.get(name, schema.get("additionalProperties"))
            if rule is None:
                raise Wrong(f"{where}: there is no property {name}; there are {', '.join(known)}")
            if rule.get("readOnly"):
                raise Wrong(f"{where}.{name} can only be read")
            self.check(inner, rule, f"{where}.{name}")


def _check_text(value: str, schema: Mapping[str, Any], where: str) -> None:
    """A string, as its enum, its pattern and its format say."""
    if "enum" in schema and value not in schema["enum"]:
        raise Wrong(f"{where}: {value!r} is none of {', '.join(schema['enum'])}")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        raise Wrong(f"{where}: {value!r} does not match {schema['pattern']}")
    if schema.get("format") in RANGES:
        if not re.fullmatch(r"-?\d+", value):
            raise Wrong(f"{where}: {value!r} is not a number")
        _check_range(int(value), schema["format"], where)


def _check_range(value: int, kind: str, where: str) -> None:
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise Wrong(f"{where}: {value} is not in the range of {kind}")
