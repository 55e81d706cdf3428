"""The JSON Schema of a document that is declared as a dataclass, as `encode` writes it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from railhead.documents.codec import key_of

NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(kind: Any, title: str) -> Mapping[str, Any]:
    """The schema of a document with its title."""
    start = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    return {**start, **_schema(kind)}


def _schema(kind: Any) -> Mapping[str, Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if is_dataclass(kind):
        return _object(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(member) for member in args]}
    if kind is type(None):
        return {"type": "null"}
    if origin is tuple:
        return {"type": "array", "items": _schema(args[0])}
    if origin is not None:
        return {"type": "object", "additionalProperties": _schema(args[1])}
    return {"type": NAMES[kind]}


def _object(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    properties = {}
    for field in fields(kind):
        choices = key_of(field).rule.choices
        limits = {"enum": list(choices)} if choices else {}
        properties[field.name] = {**_schema(hints[field.name]), **limits}
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
